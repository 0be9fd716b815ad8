// Light or dark, as the person or the system wants it.
export type Theme = 'system' | 'light' | 'dark';

const KEPT = 'streamfleet.theme';
const system = matchMedia('(prefers-color-scheme: dark)');

class ThemeChoice {
  chosen = $state<Theme>('system');
  /** What is shown. Charts draw anew when it changes. */
  shown = $state<'light' | 'dark'>('light');

  begin(): void {
    const kept = localStorage.getItem(KEPT);
    this.choose(kept === 'light' || kept === 'dark' ? kept : 'system');
    system.addEventListener('change', () => this.choose(this.chosen));
  }

  choose(theme: Theme): void {
    this.chosen = theme;
    localStorage.setItem(KEPT, theme);
    this.shown = theme === 'system' ? (system.matches ? 'dark' : 'light') : theme;
    document.documentElement.dataset.theme = this.shown;
  }
}

export const theme = new ThemeChoice();
