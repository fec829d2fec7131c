"""The check of tables of series: each finding on a table made for it."""

from __future__ import annotations

from regard.data.lint.tables import lint_tables
from regard.data.series_files import SeriesColumns, read_table

HOURS = [f"2020-01-{1 + hour // 24:02d} {hour % 24:02d}:00:00" for hour in range(240)]


def report_of(cells: list[list[object]], names: str = "date,load,heat"):
    text = "\n".join([names, *(",".join(map(str, (date, *row))) for date, row in zip(HOURS, cells, strict=True))])
    return lint_tables(read_table(text + "\n", "pump.csv", SeriesColumns()))


def plain() -> list[list[object]]:
    return [[hour % 7, (hour * 3) % 11] for hour in range(240)]


def test_a_plain_table_has_no_findings_and_a_summary() -> None:
    report = report_of(plain())
    assert report.counts == {} and report.lines == 240
    assert report.summary == ("2 series, hourly, 240 rows, 2020-01-01 to 2020-01-10, no gaps",)


def test_each_finding_is_reported_with_its_line() -> None:
    cells = plain()
    cells[100][0] = 5000
    (finding,) = report_of(cells).findings
    assert (finding.kind, finding.line, finding.file) == ("far", 102, "pump.csv") and "5000 in load" in finding.message
    constant = [[5, row[1]] for row in plain()]
    assert [(one.kind, "load" in one.message) for one in report_of(constant).findings] == [("constant", True)]
    equal = [[row[0], row[0]] for row in plain()]
    assert [one.message for one in report_of(equal).findings] == ["heat has the values of load in pump.csv"]
    missing = [["" if number % 10 == 0 else row[0], row[1]] for number, row in enumerate(plain())]
    assert [one.message for one in report_of(missing).findings] == ["10% of the values of load of pump.csv are missing"]


def test_values_that_are_often_far_are_usual() -> None:
    """Rare events of a counter: most rows are 0 or 1, and one in fifty is 500."""
    cells = [[500 if hour % 50 == 0 else hour % 2, row[1]] for hour, row in enumerate(plain())]
    assert report_of(cells).counts == {}
