"""The results of a check, one per line."""


class Lines:
    """Prints results, and counts the checks that passed and those that failed."""

    def __init__(self):
        self.right = 0
        self.wrong = 0

    def judge(self, what, complaints):
        """Passes if there are no complaints. Returns whether it passed."""
        complaints = list(complaints)
        print(f"FAIL  {what}" if complaints else f"ok    {what}", flush=True)
        for each in complaints[:40]:
            print(f"      {each}", flush=True)
        self.wrong += bool(complaints)
        self.right += not complaints
        return not complaints

    def refused(self, what, words, complaints):
        """Passes if a complaint contains these words: a check must be able to fail."""
        complaints = list(complaints)
        if any(words in each for each in complaints):
            return self.judge(f"refused: {what}", [])
        return self.judge(f"accepted: {what}", [f"no complaint contains: {words}", *complaints])

    def account(self, name):
        """Prints the last line. Returns the exit code."""
        print(f"\n{name}: {self.right} passed, {self.wrong} failed", flush=True)
        return 1 if self.wrong or not self.right else 0
