// Starts the console: who is logged in, in which language and theme; then the page of the address.
import { mount } from 'svelte';
import './styles/tokens.css';
import './styles/base.css';
import App from './App.svelte';
import { router } from './shell/router.svelte';
import { theme } from './shell/theme.svelte';
import { words } from './words/words.svelte';

theme.begin();
router.begin();
await words.begin().catch(() => undefined);
mount(App, { target: document.body });
