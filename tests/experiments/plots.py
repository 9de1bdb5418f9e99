# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws figures with gnuplot: NAME.svg, and beside it NAME.gp and NAME.dat, from which it can be drawn again."""
import os
import shutil
import subprocess

COLOURS = ("#0060ad", "#dd181f", "#2a9d3a", "#b8860b", "#7b3294", "#444444", "#00a0a0", "#e377c2")
SIZE = "760,440"


def quoted(text):
    """Text for gnuplot, which interprets neither quotes nor its own mark-up in it."""
    return "'" + str(text).replace("'", "''") + "'"


def bound(value):
    return "*" if value is None else f"{value:g}"


def data_text(plot):
    """One block per line, as gnuplot's "index" counts them."""
    blocks = []
    for line in plot.lines:
        blocks.append("".join(" ".join(f"{value:.6g}" for value in point) + "\n" for point in line.points))
    return "\n\n".join(blocks)


def drawing(plot, index, line, data_name):
    """One element of gnuplot's plot command."""
    colour = COLOURS[index % len(COLOURS)]
    source = f"{quoted(data_name)} index {index}"
    title = f"title {quoted(line.label)}"
    if plot.style == "boxes":
        return f"{source} using 1:2 with boxes fs solid 0.5 lc rgb {quoted(colour)} {title}"
    if plot.style == "points":
        first = f"{source} using 1:2 with linespoints pt {5 + index} ps 0.7 lw 1.5 lc rgb {quoted(colour)} {title}"
        if line.points and len(line.points[0]) == 4:
            # Not yerrorbars: they wipe out the point, and a symbol of size 0 is an error in SVG.
            first += f", {source} using 1:3:(0):($4-$3) with vectors nohead lc rgb {quoted(colour)} notitle"
        return first
    return f"{source} using 1:2 with lines lw 1.5 lc rgb {quoted(colour)} {title}"


def script_text(plot, data_name, svg_name):
    head = [
        f"set terminal svg noenhanced size {SIZE} dynamic background rgb 'white' font 'sans-serif,13'",
        f"set output {quoted(svg_name)}",
        f"set title {quoted(plot.title)}",
        f"set xlabel {quoted(plot.x_label)}",
        f"set ylabel {quoted(plot.y_label)}",
        f"set xrange [{bound(plot.x_range[0])}:{bound(plot.x_range[1])}]",
        f"set yrange [{bound(plot.y_range[0])}:{bound(plot.y_range[1])}]",
        "set grid ytics lc rgb '#dddddd'",
        "set key outside right top",
    ]
    if plot.logarithmic_x:
        head.append("set logscale x")
    body = ", ".join(drawing(plot, index, line, data_name) for index, line in enumerate(plot.lines))
    return "\n".join(head) + f"\nplot {body}\n"


def available():
    return shutil.which("gnuplot") is not None


def draw(plot, directory):
    """Writes the three files; the name of the SVG, or None when there is nothing to draw or no gnuplot."""
    if not any(line.points for line in plot.lines) or not available():
        return None
    drawn = [line for line in plot.lines if line.points]
    plot = type(plot)(**{**plot.__dict__, "lines": tuple(drawn)})
    names = {kind: f"{plot.name}.{kind}" for kind in ("dat", "gp", "svg")}
    for kind, text in (("dat", data_text(plot)), ("gp", script_text(plot, names["dat"], names["svg"]))):
        with open(os.path.join(directory, names[kind]), "w", encoding="utf-8") as file:
            file.write(text)
    done = subprocess.run(["gnuplot", names["gp"]], cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"gnuplot {names['gp']}: {done.stderr.strip()[-300:]}")
    return names["svg"]
