"""From single runs to the table and the chart of docs/benchmarks.md."""
import pathlib
import statistics
from xml.sax.saxutils import escape

from compare_runs import MODELS, OWN, SYSTEMS

BEGIN, END = "<!-- compare: begin -->", "<!-- compare: end -->"
COLOURS = {"starling": "#1f6feb", "starling-again": "#58a6ff", "fbgemm": "#8b949e",
           "torchrec": "#9ea7b0", "torch": "#b1bac4",
           "fbgemm-stock": "#c4ccd4", "torchrec-stock": "#d0d7de", "torch-stock": "#e6eaef"}


def medians(runs):
    """{model: {system: {"samples_per_s", "low", "high", "runs", "auc", "auc_low", "auc_high"}}}, in the order of MODELS."""
    summary = {}
    for model in MODELS:
        for system in SYSTEMS:
            own = [r for r in runs if r["model"] == model and r["system"] == system]
            if not own:
                continue
            speeds = [r["samples_per_s"] for r in own]
            summary.setdefault(model, {})[system] = {
                "samples_per_s": statistics.median(speeds), "low": min(speeds), "high": max(speeds),
                "runs": len(own),
                "auc": statistics.mean(r["auc"] for r in own),
                "auc_low": min(r["auc"] for r in own), "auc_high": max(r["auc"] for r in own)}
    return summary


def ratio_of(runs, model, own, system):
    """The median, over repeats, of ours by theirs in the same repeat: what a changing machine leaves
    of a comparison."""
    def by_repeat(name):
        return {r["repeat"]: r["samples_per_s"] for r in runs
                if r["model"] == model and r["system"] == name}
    ours, theirs = by_repeat(own), by_repeat(system)
    ratios = [ours[i] / theirs[i] for i in ours if i in theirs]
    return statistics.median(ratios) if ratios else None


def table(runs):
    lines = ["| Model | System | samples/s, median (least to most; runs) | Starling's by it | Its second pass by it "
             "| AUC, mean (least to most) |", "|---|---|---|---|---|---|"]
    for model, systems in medians(runs).items():
        for system, m in systems.items():
            ratios = [None if system in OWN else ratio_of(runs, model, own, system) for own in OWN]
            # After a second pass it is that of rows learned by heart.
            auc = "" if system == OWN[1] else (f"{m['auc']:.5f} "
                                               f"({m['auc_low']:.5f}–{m['auc_high']:.5f})")
            lines.append(
                f"| {MODELS[model]['title']} | {SYSTEMS[system]} | {m['samples_per_s']:,.0f} "
                f"({m['low']:,.0f}–{m['high']:,.0f}; {m['runs']}) | "
                + " | ".join("" if ratio is None else f"{ratio:.2f}" for ratio in ratios) +
                f" | {auc} |")
    return "\n".join(lines)


def chart(runs):
    """Bars of samples/s, a group a model."""
    left, width, bar, gap = 210, 480, 18, 26
    summary = medians(runs)
    most = max((m["samples_per_s"] for s in summary.values() for m in s.values()), default=1)
    y, parts = 10, []

    def text(x, y, words, extra=""):
        parts.append(f'<text x="{x}" y="{y}" {extra}>{escape(words)}</text>')

    for model, systems in summary.items():
        y += gap
        text(10, y - 8, MODELS[model]["title"], 'font-weight="bold"')
        for system, m in systems.items():
            length = width * m["samples_per_s"] / most
            text(left - 8, y + 13, SYSTEMS[system], 'text-anchor="end"')
            parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 3}" '
                         f'fill="{COLOURS[system]}"/>')
            text(round(left + length + 6), y + 13, f"{m['samples_per_s']:,.0f}")
            y += bar
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 80}" height="{y + 14}" '
            f'font-family="sans-serif" font-size="12">\n'
            '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")


def splice(page, runs):
    """The page with the table between the marks replaced."""
    begin, end = page.find(BEGIN), page.find(END)
    if begin < 0 or end < begin:
        raise ValueError(f"no {BEGIN} … {END} in the page")
    return page[:begin] + f"{BEGIN}\n{table(runs)}\n{END}" + page[end + len(END):]


def write(docs, runs):
    page = pathlib.Path(docs) / "benchmarks.md"
    page.write_text(splice(page.read_text(), runs))
    (pathlib.Path(docs) / "compare.svg").write_text(chart(runs))
