import { readdirSync, writeFileSync } from 'node:fs';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

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

export default defineConfig({
  plugins: [svelte(), listed],
  build: {
    target: 'es2022',
    // The content security policy allows no data in scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // One style sheet for all pages: the whole of it is smaller than the cost of a second request.
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        entryFileNames: 'assets/[name].[hash].js',
        chunkFileNames: 'assets/[name].[hash].js',
        assetFileNames: 'assets/[name].[hash][extname]',
      },
    },
  },
  server: { proxy: { '/api': proxied } },
});
