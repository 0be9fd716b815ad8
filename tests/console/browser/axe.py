"""axe-core, which finds what people who use a keyboard, a screen reader or a poor screen cannot use.

It is evaluated through the debugger, as a console of developer tools would do. So the page's Content-Security-Policy stays as it is.
"""

import json

# What must not be found. The others, such as `moderate`, are opinions about style.
SEVERE = ("serious", "critical")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OPTIONS = {"resultTypes": ["violations"], "runOnly": {"type": "tag", "values": RULES}}


class Axe:
    """The script, which is put into each page that is checked."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.script = file.read()

    def findings(self, page):
        """Yields what is wrong with a page, in the elements where it is."""
        debugger = page.context.new_cdp_session(page)
        try:
            evaluated(debugger, f"{self.script}\n;undefined")
            run = f"axe.run(document, {json.dumps(OPTIONS)}).then(found => JSON.stringify(found.violations))"
            violations = json.loads(evaluated(debugger, run))
        finally:
            debugger.detach()
        for violation in violations:
            if violation["impact"] in SEVERE:
                places = [node["html"][:120] for node in violation["nodes"][:3]]
                yield f"{violation['impact']}: {violation['id']}: {violation['help']}: {' | '.join(places)}"


def evaluated(debugger, expression):
    """Returns the value of an expression in the page."""
    answer = debugger.send("Runtime.evaluate", {"expression": expression, "awaitPromise": True, "returnByValue": True})
    if "exceptionDetails" in answer:
        raise ValueError(f"a script failed: {answer['exceptionDetails'].get('exception', answer['exceptionDetails'])}")
    return answer["result"].get("value")
