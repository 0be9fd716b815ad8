"""axe-core, which finds what people who use a keyboard, a screen reader or a poor screen cannot use.

It is evaluated through the debugger, as a console of developer tools would do. So the page's Content-Security-Policy stays as it is.
"""

import json

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OPTIONS = {"resultTypes": ["violations"], "runOnly": {"type": "tag", "values": RULES}}


class Axe:
    """The script, which is put into each page that is checked."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.script = file.read()
        # The debugger of each page.
        self._debuggers = {}

    def findings(self, page):
        """Yields what is wrong with a page, in the elements where it is."""
        debugger = self._debuggers.get(page)
        if debugger is None:
            debugger = self._debuggers[page] = page.context.new_cdp_session(page)
        if evaluated(debugger, "typeof axe") == "undefined":
            evaluated(debugger, f"{self.script}\n;undefined")
        run = f"axe.run(document, {json.dumps(OPTIONS)}).then(found => JSON.stringify(found.violations))"
        for violation in json.loads(evaluated(debugger, run)):
            places = [f"{node['html'][:160]} ({'; '.join(each['message'] for each in node['any'][:1])})" for node in violation["nodes"][:3]]
            yield f"{violation['impact']}: {violation['id']}: {violation['help']}: {' | '.join(places)}"


def evaluated(debugger, expression):
    """Returns the value of an expression in the page."""
    answer = debugger.send("Runtime.evaluate", {"expression": expression, "awaitPromise": True, "returnByValue": True})
    if "exceptionDetails" in answer:
        raise ValueError(f"a script failed: {answer['exceptionDetails'].get('exception', answer['exceptionDetails'])}")
    return answer["result"].get("value")
