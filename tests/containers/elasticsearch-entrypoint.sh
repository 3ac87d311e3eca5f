#!/usr/bin/env bash
# Does what deploy/compose.yaml needs of the official image's script: the password of `elastic` goes into the keystore,
# and variables with a dot in their names become settings.
set -euo pipefail
[ -f config/elasticsearch.keystore ] || bin/elasticsearch-keystore create --silent
printf '%s\n' "$ELASTIC_PASSWORD" | bin/elasticsearch-keystore add --force --stdin bootstrap.password
unset ELASTIC_PASSWORD
settings=()
while IFS= read -r -d '' variable; do
	[[ ${variable%%=*} =~ ^[a-z_]+(\.[a-z_]+)+$ ]] && settings+=("-E$variable")
done < <(env --null)
exec bin/elasticsearch "${settings[@]}"
