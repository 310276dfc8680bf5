"""How the widgets of the report agent look in ChatKit."""

from collections.abc import Mapping
from typing import Any

from threadwire.chatkit import Formats

formats = Formats()

Widget = dict[str, Any]


@formats.widget("progress")
def progress(props: Mapping[str, Any]) -> Widget:
    done, of = props["done"], props["of"]
    last = f", last: {props['last']}" if "last" in props else ""
    count: list[Widget] = [
        {"type": "Caption", "value": f"{done} of {of} sources{last}"},
        {"type": "Spacer"},
        {"type": "Badge", "label": f"{done / of:.0%}", "color": "success" if done == of else "info"},
    ]
    return _card(props["title"], {"type": "Row", "gap": 2, "children": count})


@formats.widget("bar-chart")
def bar_chart(props: Mapping[str, Any]) -> Widget:
    bars = [{"source": source, "demand": demand} for source, demand in props["bars"].items()]
    chart = {
        "type": "Chart",
        "data": bars,
        "series": [{"type": "bar", "dataKey": "demand", "label": "Demand, of 100"}],
        "xAxis": "source",
        "showYAxis": True,
        "height": 180,
    }
    return {**_card(props["title"], chart), "size": "lg"}


def _card(title: str, *children: Widget) -> Widget:
    return {"type": "Card", "size": "md", "children": [{"type": "Title", "value": title, "size": "sm"}, *children]}
