from tests.support.metrics_page import PAGE, page


def test_the_page_of_metrics_is_current() -> None:
    """`.venv/bin/python -m tests.support.metrics_page` writes it anew."""
    assert page() == PAGE.read_text(encoding="utf-8")
