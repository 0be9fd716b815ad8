// Whether the list of keys is open. A key and the palette open it.
export const help = $state({ isOpen: false });
