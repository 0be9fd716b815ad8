import { readdirSync, writeFileSync } from 'node:fs';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, runnerImport, type Plugin } from 'vite';

// The console that `npm run dev` asks for figures.
const target = process.env.CONSOLE ?? 'http://127.0.0.1:9470';
const proxied = { target, headers: { host: new URL(target).host } };

/** Lists the built files for `program/src/console/app.rs`, which makes them part of the program. */
const listed: Plugin = {
  name: 'listed',
  apply: 'build',
  closeBundle() {
    const assets = readdirSync('dist/assets').sort();
    const lines = ['index.html', ...assets.map((name) => `assets/${name}`)].map((path) => {
      const file = `include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../console/dist/${path}"))`;
      return `    ("${path}", ${file}.as_slice()),\n`;
    });
    writeFileSync('dist/files.rs', `&[\n${lines.join('')}]\n`);
  },
};

type Texts = Record<string, string>;

/** Leaves the keys out of the built Chinese texts, a third of their bytes: they are those of the English ones, in the same order. */
const withoutKeys: Plugin = {
  name: 'without-keys',
  apply: 'build',
  async load(id) {
    if (!id.endsWith('/src/words/zh-CN.ts')) return undefined;
    const { zh } = (await runnerImport<{ zh: Texts }>(id)).module;
    const { en } = (await runnerImport<{ en: Texts }>(id.replace('zh-CN', 'en'))).module;
    if (Object.keys(zh).join() !== Object.keys(en).join()) throw new Error('en.ts and zh-CN.ts must have the same keys in the same order');
    const texts = JSON.stringify(Object.values(zh));
    return `import { en } from './en'; const texts = ${texts}; export const zh = Object.fromEntries(Object.keys(en).map((key, nth) => [key, texts[nth]]));`;
  },
};

export default defineConfig({
  plugins: [svelte(), listed, withoutKeys],
  build: {
    target: 'es2022',
    // The content security policy allows no data in scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // One style sheet for all pages: the whole of it is smaller than the cost of a second request.
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        // What five pages or forms share is one file: many small ones compress worse, and take a request each.
        codeSplitting: { groups: [{ name: 'shared', test: /\/src\//, minShareCount: 5 }] },
        entryFileNames: 'assets/[name].[hash].js',
        chunkFileNames: 'assets/[name].[hash].js',
        assetFileNames: 'assets/[name].[hash][extname]',
      },
    },
  },
  server: { proxy: { '/api': proxied } },
});
