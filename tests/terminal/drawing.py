"""Draws a recording as one SVG, whose frames follow each other by CSS alone: no script, no font, nothing from elsewhere."""

from html import escape
from itertools import groupby

from screen import Screen

# Of a column and a line, in the units of the picture.
WIDTH, HEIGHT, MARGIN = 8.4, 18, 12
BACKGROUND, TEXT = "#16181d", "#d7dae0"
PALETTE = [
    "#3b4048", "#e06c75", "#8cc265", "#d9a343", "#5aa2e8", "#c678dd", "#4fb8c4", "#d7dae0",
    "#7d8590", "#ff7b86", "#a5e075", "#f0c674", "#7cbcff", "#d7a1ff", "#7fdbe6", "#ffffff",
]
# Frames that are closer to each other than this, in seconds, become one; the last one stays as long as LAST.
CLOSEST, LAST = 0.08, 3


def frames(columns, lines, events):
    """Returns when each frame begins, and its lines."""
    screen, found = Screen(columns, lines), []
    for at, text in events:
        screen.write(text)
        shown = [tuple(line) for line in screen.cells]
        if found and at - found[-1][0] < CLOSEST:
            found[-1] = (found[-1][0], shown)
        elif not found or found[-1][1] != shown:
            found.append((at, shown))
    return found


def line_of(cells, y):
    """Draws one line: a rectangle behind what is reversed, and a text for each run of equal style."""
    parts, column = [], 0
    for style, run in groupby(cells, key=lambda cell: cell[1]):
        text = "".join(character for character, _ in run)
        color, bold, dim, is_reversed = style
        x, width = column * WIDTH, len(text) * WIDTH
        column += len(text)
        fill = TEXT if color is None else PALETTE[color]
        if is_reversed:
            parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}" fill="{fill}"/>')
            fill = BACKGROUND
        if text.strip():
            looks = (' font-weight="bold"' if bold else "") + (' opacity=".6"' if dim else "")
            # Whatever the font is, the text has the width of its columns.
            parts.append(
                f'<text x="{x:.1f}" y="{y + HEIGHT - 5}" fill="{fill}"{looks} textLength="{width:.1f}" '
                f'lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
            )
    return "".join(parts)


def svg(columns, lines, events, title):
    """Returns the picture. A line that several frames have is drawn once."""
    found = frames(columns, lines, events)
    start, total = found[0][0], found[-1][0] - found[0][0] + LAST
    names, lines_drawn, shown, rules = {}, [], [], []
    for number, (at, cells) in enumerate(found):
        end = found[number + 1][0] if number + 1 < len(found) else start + total
        begin, end = ((moment - start) / total * 100 for moment in (at, end))
        used = []
        for y, line in enumerate(cells):
            key = (y, line)
            if key not in names:
                drawn = line_of(line, y * HEIGHT)
                names[key] = f"l{len(names)}" if drawn else None
                if drawn:
                    lines_drawn.append(f'<g id="{names[key]}">{drawn}</g>')
            if names[key]:
                used.append(f'<use href="#{names[key]}"/>')
        shown.append(f'<g class="f" style="animation-name:f{number}">{"".join(used)}</g>')
        hidden = "" if begin == 0 else f"0%{{opacity:0}}{begin:.3f}%{{opacity:0}}"
        after = "" if end >= 100 else f"{end:.3f}%{{opacity:0}}"
        rules.append(f"@keyframes f{number}{{{hidden}{begin:.3f}%{{opacity:1}}{after}100%{{opacity:{int(end >= 100)}}}}}")
    width, height = columns * WIDTH + 2 * MARGIN, lines * HEIGHT + 2 * MARGIN
    still = "@media(prefers-reduced-motion:reduce){.f{animation:none}.f:last-of-type{opacity:1}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
        f"<title>{escape(title)}</title><style>text{{font:14px ui-monospace,Menlo,Consolas,monospace;white-space:pre}}"
        f".f{{opacity:0;animation-duration:{total:.2f}s;animation-iteration-count:infinite;animation-timing-function:step-end}}"
        f'{"".join(rules)}{still}</style><rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>'
        f'<defs>{"".join(lines_drawn)}</defs><g transform="translate({MARGIN},{MARGIN})">{"".join(shown)}</g></svg>\n'
    )
