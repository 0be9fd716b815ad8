// Starts the console: who is logged in, in which language and theme; then the page of the address.
import { mount } from 'svelte';
import './styles/tokens.css';
import './styles/base.css';
import App from './App.svelte';
import { match } from './shell/pages';
import { router } from './shell/router.svelte';
import { theme } from './shell/theme.svelte';
import { words } from './words/words.svelte';

theme.begin();
router.begin();
// The page is fetched while the session is asked for.
void match(router.segments)?.page.load();
await words.begin().catch(() => undefined);
mount(App, { target: document.body });
