// The time that ages count from. It ticks once a second for all of them.
class Now {
  ms = $state(Date.now());

  constructor() {
    setInterval(() => document.visibilityState === 'visible' && (this.ms = Date.now()), 1000);
  }
}

export const now = new Now();
