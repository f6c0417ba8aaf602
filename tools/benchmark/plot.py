"""Small SVG pictures: lines over logarithmic axes, and bars. Readable on light and dark."""
import html
import math

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 84, 40, 44, 56
COLOURS = {"leased": "#2f7ed8", "etcd 3.5": "#d9730d", "etcd 3.4": "#b08b2e"}
OTHER_COLOUR = "#6b7280"
STYLE = (
    "<style>text{font:13px sans-serif;fill:#333}.title{font-size:15px;font-weight:bold}"
    ".grid{stroke:#888;stroke-opacity:.3}.target{stroke:#c9302c;stroke-width:2}.back{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.back{fill:#1c1e21}}</style>"
)


def _head(title, height=HEIGHT):
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img">', STYLE,
        f'<rect class="back" width="{WIDTH}" height="{height}" rx="6"/>',
        f'<text class="title" x="{LEFT}" y="26">{html.escape(title)}</text>',
    ]  # fmt: skip


def short(number):
    """1500000 as 1.5M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def lines(path, title, x_label, series, x_text=short):
    """`series`: name -> [(x, y), ...], all above zero; `x_text` writes the values of x."""
    points = [point for one in series.values() for point in one]
    if not points:
        return
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    y_low = 10 ** math.floor(math.log10(min(y for _, y in points)))
    y_high = 10 ** math.ceil(math.log10(max(y for _, y in points)) + 1e-9)
    x_span = math.log10(x_high / x_low) or 1
    y_span = math.log10(y_high / y_low) or 1

    def place(x, y):
        return (LEFT + math.log10(x / x_low) / x_span * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - math.log10(y / y_low) / y_span * (HEIGHT - TOP - BOTTOM))  # fmt: skip

    out = _head(title)
    power = y_low
    while power <= y_high * 1.0001:
        _, y = place(x_low, power)
        out.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
                   f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{short(power)}</text>')  # fmt: skip
        power *= 10
    for value in sorted({x for x, _ in points}):
        x, _ = place(value, y_low)
        out.append(f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
                   f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">'
                   f'{x_text(value)}</text>')  # fmt: skip
    for index, (name, one) in enumerate(series.items()):
        colour = COLOURS.get(name, OTHER_COLOUR)
        places = [place(x, y) for x, y in sorted(one)]
        way = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        out.append(f'<path fill="none" stroke="{colour}" stroke-width="2.5" d="M{way}"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in places]
        x = LEFT + 150 * index
        out.append(f'<path stroke="{colour}" stroke-width="4" d="M{x} {HEIGHT - 10}h22"/>'
                   f'<text x="{x + 30}" y="{HEIGHT - 6}">{html.escape(name)}</text>')  # fmt: skip
    out.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">'
               f"{html.escape(x_label)}</text></svg>")  # fmt: skip
    path.write_text("\n".join(out) + "\n", encoding="utf-8")


def bars(path, title, rows):
    """`rows`: (name, ratio, target ratio or None); a tick marks the target."""
    if not rows:
        return
    left, step = 300, 30
    height = TOP + step * len(rows) + 24
    span = max(max(ratio, target or 0) for _, ratio, target in rows) * 1.12

    def place(ratio):
        return left + ratio / span * (WIDTH - left - 70)

    out = _head(title, height)
    for index, (name, ratio, target) in enumerate(rows):
        y = TOP + step * index
        out.append(f'<text x="{left - 10}" y="{y + 16}" text-anchor="end">{html.escape(name)}</text>'
                   f'<rect x="{left}" y="{y + 3}" width="{max(1, place(ratio) - left):.1f}" '
                   f'height="18" rx="2" fill="{COLOURS["leased"]}"/>'
                   f'<text x="{place(max(ratio, target or 0)) + 6:.1f}" y="{y + 16}">'
                   f"{ratio:.1f}×</text>")  # fmt: skip
        if target:
            out.append(f'<path class="target" d="M{place(target):.1f} {y}v24"/>')
    out.append(f'<text x="{left}" y="{height - 8}">times etcd 3.5; the red tick is the target'
               "</text></svg>")  # fmt: skip
    path.write_text("\n".join(out) + "\n", encoding="utf-8")
