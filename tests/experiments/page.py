# SPDX-License-Identifier: GPL-2.0-or-later
"""One static page with the tables and figures of all experiments: index.html. No script, nothing from elsewhere."""
import html

import report

STYLE = """
body { font: 15px/1.45 sans-serif; max-width: 72em; margin: 1.5em auto; padding: 0 1em; color: #222; }
div.table { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.5em 0 1em; }
th, td { padding: 0.2em 0.7em; border-bottom: 1px solid #ddd; text-align: right; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
p.frame { color: #555; max-width: 60em; }
p.wrong { color: #a00; }
img { max-width: 100%; }
"""


def table_html(table, summary):
    titles, lines = report.rows(table, summary)
    text = [f"<h3>{html.escape(table.title)}</h3>", "<div class=table><table>",
            "<tr>" + "".join(f"<th>{html.escape(title)}</th>" for title in titles) + "</tr>"]
    text += ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>" for cells in lines]
    text.append("</table></div>")
    if table.note:
        text.append(f"<p class=frame>{html.escape(table.note)}</p>")
    return "\n".join(text)


def section(experiment, summary):
    """One experiment, from its summary."""
    name = html.escape(experiment.name)
    text = [f'<h2 id="{name}">{html.escape(experiment.title)}</h2>',
            f"<p class=frame>{html.escape(report.frame_line(summary))}</p>",
            f"<p class=frame>{html.escape(report.host_line(summary))}</p>"]
    if summary["broken_off"]:
        text.append(f"<p class=wrong>Broken off: {html.escape(summary['broken_off'])}</p>")
    text += [table_html(table, summary) for table in experiment.tables(summary["parameters"])]
    remarks = report.finding_lines(summary) + list(experiment.notes(summary["parameters"]))
    text += ["<ul>"] + [f"<li>{html.escape(remark)}</li>" for remark in remarks] + ["</ul>"] if remarks else []
    for figure in summary["figures"]:
        text.append(f'<p><img src="{html.escape(figure["file"])}" alt="{html.escape(figure["title"])}"></p>')
        if figure["note"]:
            text.append(f"<p class=frame>{html.escape(figure['note'])}</p>")
    text.append(f'<p>Data: <a href="{name}.json">JSON</a>, <a href="{name}.csv">CSV</a>, '
                f'<a href="{name}.md">Markdown</a></p>')
    return "\n".join(text)


def page(sections):
    """sections: [(name, title, html)]"""
    links = " &middot; ".join(f'<a href="#{html.escape(name)}">{html.escape(name)}</a>' for name, _, _ in sections)
    return ("<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
            "<meta name=viewport content='width=device-width, initial-scale=1'><title>Experiments</title>\n"
            f"<style>{STYLE}</style></head>\n<body>\n<h1>Experiments</h1>\n<p>{links}</p>\n" +
            "\n".join(text for _, _, text in sections) + "\n</body></html>\n")
