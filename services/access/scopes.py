"""Names what a caller may do."""

from typing import Literal, get_args

# What a key may do. `search`: ask and read. `index`: write and publish collections, judge. `admin`: remove collections,
# start and end experiments, reload.
KeyScope = Literal["search", "index", "admin"]
KEY_SCOPES: tuple[KeyScope, ...] = get_args(KeyScope)

# What a route needs. `open`: nothing. `internal`: the token of our own processes, which no key replaces.
Scope = Literal["open", "search", "index", "admin", "internal"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
