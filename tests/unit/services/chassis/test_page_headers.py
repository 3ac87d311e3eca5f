"""The headers of every page: nothing foreign is loaded, framed, guessed, told or kept."""

from services.chassis.page_headers import ASSET_HEADERS, PAGE_HEADERS


def test_a_page_loads_and_sends_to_its_own_service_alone() -> None:
    policy = dict(part.split(" ", 1) for part in PAGE_HEADERS["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert set(policy.values()) == {"'none'", "'self'"}


def test_a_page_is_not_kept_guessed_embedded_or_told_to_others() -> None:
    assert PAGE_HEADERS["cache-control"] == "no-store"
    assert PAGE_HEADERS["x-content-type-options"] == ASSET_HEADERS["x-content-type-options"] == "nosniff"
    assert PAGE_HEADERS["cross-origin-resource-policy"] == "same-origin"
    assert PAGE_HEADERS["referrer-policy"] == "same-origin"
