"""Owns the headers of the HTML pages that services show, and of the files that these load. Renders no page.

Imports no web framework, so that the command line, which renders pages into files, starts without one.
"""

# Nothing but files of the service itself: no inline script or style, no frame around it, no form elsewhere.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_OWN = {"x-content-type-options": "nosniff", "cross-origin-resource-policy": "same-origin"}
PAGE_HEADERS = {
    "content-security-policy": POLICY,
    # The address of a page may hold a query or a name. With `no-referrer` browsers would send our own forms with
    # `Origin: null` (Fetch, 3.2), as those of a page that hides where it comes from.
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    **_OWN,
}
# The headers of a file whose address holds the digest of its content.
ASSET_HEADERS = {"cache-control": "public, max-age=31536000, immutable", **_OWN}
