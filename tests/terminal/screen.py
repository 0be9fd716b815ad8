"""What a terminal shows after a program has written to it: characters with their colors, as far as `top` needs it."""

import re

SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([@-~])|\x1b[^\[]|([\x00-\x1a\x1c-\x1f\x7f])|([^\x00-\x1f\x7f])")

# A color of the palette, or none; bold; dim; reversed.
PLAIN = (None, False, False, False)


class Screen:
    def __init__(self, columns, lines):
        self.columns, self.lines = columns, lines
        self.rest = ""
        self.style = PLAIN
        self.clear()

    def clear(self):
        self.cells = [[(" ", PLAIN)] * self.columns for _ in range(self.lines)]
        self.line = self.column = 0

    def write(self, text):
        text, at = self.rest + text, 0
        while at < len(text):
            found = SEQUENCE.match(text, at)
            if not found:
                # A sequence that is not complete yet.
                break
            at = found.end()
            parameters, command, control, character = found.groups()
            if character:
                self.put(character)
            elif control == "\r":
                self.column = 0
            elif control == "\n":
                self.line = min(self.line + 1, self.lines - 1)
            elif command:
                self.obey(parameters, command)
        self.rest = text[at:]

    def put(self, character):
        if self.line < self.lines and self.column < self.columns:
            self.cells[self.line][self.column] = (character, self.style)
        self.column += 1

    def obey(self, parameters, command):
        if command == "H":
            numbers = [int(number or 1) for number in parameters.split(";")] + [1]
            self.line, self.column = numbers[0] - 1, numbers[1] - 1
        elif command == "J" or (command == "h" and parameters == "?1049"):
            self.clear()
        elif command == "m":
            self.paint([int(number or 0) for number in parameters.split(";")])

    def paint(self, numbers):
        color, bold, dim, is_reversed = self.style
        numbers = iter(numbers)
        for number in numbers:
            if number == 0:
                color, bold, dim, is_reversed = PLAIN
            elif number == 1:
                bold = True
            elif number == 2:
                dim = True
            elif number == 22:
                bold = dim = False
            elif number in (7, 27):
                is_reversed = number == 7
            elif 30 <= number <= 37:
                color = number - 30
            elif 90 <= number <= 97:
                color = number - 82
            elif number == 39:
                color = None
            elif number in (38, 48):
                # 5;n is a color of the palette. `top` uses no others.
                kind, value = next(numbers, 0), next(numbers, 0)
                if number == 38 and kind == 5 and value < 16:
                    color = value
        self.style = (color, bold, dim, is_reversed)
