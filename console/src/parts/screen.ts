// How wide the window is. Below `phone`, tables have rows of two lines and the navigation is a menu.
import { MediaQuery } from 'svelte/reactivity';

export const phone = new MediaQuery('(max-width: 639px)');
export const narrow = new MediaQuery('(max-width: 1023px)');
