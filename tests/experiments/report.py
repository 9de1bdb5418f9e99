# SPDX-License-Identifier: GPL-2.0-or-later
"""From finished runs to a summary, CSV and tables. Pure, except the writing at the end.

Every number in a table comes from the runs; a cell without a value shows "-".
"""
import csv
import io

import hoststate
import stats

HOST_MEASURES = ("idle_percent", "steal_percent", "foreign_percent")


def by_repetition(records, measure):
    return {record["key"]["repetition"]: record["measures"].get(measure) for record in records}


def arm_summary(records):
    """{measures: {name: {median, min, max}}, runs: [...], suspect: number} of one arm."""
    names = list(dict.fromkeys(name for record in records for name in record["measures"]))
    return {
        "measures": {name: stats.spread([record["measures"].get(name) for record in records]) for name in names},
        "runs": [{"repetition": record["key"]["repetition"], "suspect": record["suspect"],
                  "attempts": len(record["attempts"]), "errors_by_kind": record.get("errors_by_kind", {}),
                  "host": record["host"], "measures": record["measures"]} for record in records],
        "suspect": sum(bool(record["suspect"]) for record in records),
    }


def ratio_summary(runs, base, measures):
    """{arm: {measure: {median, min, max, values}}}: each arm's runs over the base's of the same repetition."""
    found = {}
    for arm, records in runs.items():
        found[arm] = {}
        for measure in measures:
            values = stats.paired_ratios(by_repetition(records, measure), by_repetition(runs.get(base, []), measure))
            found[arm][measure] = {**stats.spread(values), "values": values}
    return found


def summarize(experiment, parameters, runs, repetitions, quick, missing=None, figures=()):
    """The content of NAME.json. runs: {arm name: [record of each repetition]}; figures: {title, note, file}s."""
    total = sum(len(records) for records in runs.values())
    arms = [arm.name for arm in experiment.arms(parameters)]
    return {
        "schema": "experiment/1",
        "name": experiment.name,
        "title": experiment.title,
        "quick": quick,
        "caption": experiment.caption(parameters),
        "parameters": parameters,
        "repetitions": repetitions,
        "runs_planned": repetitions * len(arms),
        "runs_done": total,
        "broken_off": missing,
        "machine": hoststate.describe(),
        "suspect_rule": hoststate.BOUNDS,
        "arms": {arm: arm_summary(runs[arm]) for arm in arms if runs.get(arm)},
        "ratios": {base: ratio_summary(runs, base, experiment.ratio_measures) for base in experiment.bases},
        "findings": experiment.findings(parameters, runs),
        "figures": list(figures),
    }


def number(value, digits):
    return "-" if value is None else f"{value:,.{digits}f}"


def spread_text(spread, digits, scale):
    """median [min - max], the median alone when all are the same."""
    if spread is None or spread["median"] is None:
        return "-"
    middle, low, high = (number(spread[name] * scale, digits) for name in ("median", "min", "max"))
    return middle if low == high else f"{middle} [{low} - {high}]"


def cell_spread(summary, arm, column):
    if column.ratio_to:
        return summary["ratios"].get(column.ratio_to, {}).get(arm, {}).get(column.measure)
    return summary["arms"].get(arm, {}).get("measures", {}).get(column.measure)


def rows(table, summary):
    """(titles, [cells]) of a table: a column with figures of a paper becomes two."""
    titles = ["arm"]
    for column in table.columns:
        titles += [f"{column.title}: paper", "here"] if column.paper else [column.title]
    lines = []
    for arm in table.arms:
        if arm not in summary["arms"]:
            continue
        suspect = summary["arms"][arm]["suspect"]
        cells = [arm + (f" (suspect: {suspect} of {len(summary['arms'][arm]['runs'])})" if suspect else "")]
        for column in table.columns:
            if column.paper:
                printed = column.paper.get(arm)
                cells.append("-" if printed is None else str(printed))
            cells.append(spread_text(cell_spread(summary, arm, column), column.digits, column.scale))
        lines.append(cells)
    return titles, lines


def host_line(summary):
    """Idle and stolen time over all runs, and how many are suspect."""
    texts = []
    for measure, what in zip(HOST_MEASURES, ("idle", "stolen", "used by others")):
        values = [run["host"][measure] for arm in summary["arms"].values() for run in arm["runs"]]
        texts.append(f"{spread_text(stats.spread(values), 0, 1)} % {what}")
    suspect = sum(arm["suspect"] for arm in summary["arms"].values())
    repeated = sum(run["attempts"] > 1 for arm in summary["arms"].values() for run in arm["runs"])
    machine = summary["machine"]
    return (f"Host: {machine['processors']} x {machine['model']}, {machine['memory_mb']} MB, {machine['kernel']}; "
            f"{', '.join(texts)}. {suspect} of {summary['runs_done']} runs suspect, {repeated} were repeated "
            f"({summary['suspect_rule']}).")


def frame_line(summary):
    """The facts that every table must give beside its numbers."""
    done = "" if summary["runs_done"] == summary["runs_planned"] else \
        f" Incomplete: {summary['runs_done']} of {summary['runs_planned']} runs."
    return (f"{summary['caption']} {summary['repetitions']} repetitions, paired by seed; median [min - max] of "
            f"them, ratios repetition by repetition.{' A short run.' if summary['quick'] else ''}{done}")


def markdown_table(table, summary):
    titles, lines = rows(table, summary)
    text = [f"### {table.title}", "", "| " + " | ".join(titles) + " |",
            "|---|" + "---:|" * (len(titles) - 1)]
    text += ["| " + " | ".join(cells) + " |" for cells in lines]
    if table.note:
        text += ["", table.note]
    return "\n".join(text) + "\n"


def finding_lines(summary):
    return [f"{name.replace('_', ' ')}: {'not found' if value is None else value}"
            for name, value in summary["findings"].items()]


def markdown(experiment, summary):
    """NAME.md"""
    parts = [f"## {experiment.title}", "", frame_line(summary), "", host_line(summary), ""]
    if summary["broken_off"]:
        parts += [f"**Broken off:** {summary['broken_off']}", ""]
    for table in experiment.tables(summary["parameters"]):
        parts += [markdown_table(table, summary)]
    parts += [f"- {line}" for line in finding_lines(summary)] + [""] * bool(summary["findings"])
    parts += [f"- {note}" for note in experiment.notes(summary["parameters"])] + [""]
    for figure in summary["figures"]:
        parts += [f"![{figure['title']}]({figure['file']})", ""] + ([figure["note"], ""] if figure["note"] else [])
    return "\n".join(parts)


def csv_text(runs):
    """One line per run, one column per measure."""
    records = [record for each in runs.values() for record in each]
    names = list(dict.fromkeys(name for record in records for name in record["measures"]))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["arm", "repetition", "suspect"] + names)
    for record in records:
        writer.writerow([record["key"]["arm"], record["key"]["repetition"], int(bool(record["suspect"]))] +
                        [record["measures"].get(name) for name in names])
    return out.getvalue()


def series_csv(runs):
    """One line per run and second, for series that are {node: [value per second]}; None when there are none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heading = None
    for records in runs.values():
        for record in records:
            series = {f"{kind}_{node}": values for kind, nodes in record.get("series", {}).items()
                      if isinstance(nodes, dict) for node, values in nodes.items()}
            if series and heading is None:
                heading = list(series)
                writer.writerow(["arm", "repetition", "second"] + heading)
            for second in range(max(map(len, series.values()), default=0)):
                writer.writerow([record["key"]["arm"], record["key"]["repetition"], second] +
                                [series[name][second] if second < len(series.get(name, ())) else ""
                                 for name in heading])
    return out.getvalue() if heading else None
