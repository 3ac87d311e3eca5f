#!/usr/bin/env bash
# Makes the API keys of the lexical service on a running Elasticsearch: a file KEYS/NAME for each NAME.json beside this
# script, unless there is one that still opens and was made with the same rights. Keys that exist stay valid.
#
#   ELASTICSEARCH_URL ELASTICSEARCH_CA_FILE ELASTIC_PASSWORD_FILE KEYS
#
# bash, curl and coreutils only, and nothing in /tmp: it runs in the image of Elasticsearch, on a read-only root.
set -euo pipefail
umask 022
here=$(cd "$(dirname "$0")" && pwd)

# ask HEADER curl's arguments ...: a secret in the arguments would be in the list of processes.
ask() {
	local header=$1
	shift
	curl --silent --show-error --max-time 60 --retry 30 --retry-delay 1 --retry-connrefused \
		--cacert "$ELASTICSEARCH_CA_FILE" --header @<(printf 'Authorization: %s' "$header") "$@"
}

opens() {
	local status
	status=$(ask "ApiKey $(cat "$1")" --output /dev/null --write-out '%{http_code}' \
		"$ELASTICSEARCH_URL/_security/_authenticate") && [ "$status" = 200 ]
}

password=$(cat "$ELASTIC_PASSWORD_FILE")
elastic="Basic $(printf 'elastic:%s' "$password" | base64 -w0)"
for body in "$here"/*.json; do
	name=$(basename "$body" .json)
	rights=$(cat "$body")
	if [ -s "$KEYS/$name" ] && [ -s "$KEYS/$name.json" ] && [ "$rights" = "$(cat "$KEYS/$name.json")" ] &&
		opens "$KEYS/$name"; then
		echo "The key \`$name\` is there."
		continue
	fi
	answer=$(ask "$elastic" --fail-with-body --header 'Content-Type: application/json' --data-raw "$rights" \
		"$ELASTICSEARCH_URL/_security/api_key") || { echo "Elasticsearch made no key \`$name\`: $answer" >&2; exit 1; }
	[[ $answer =~ \"encoded\"\ *:\ *\"([^\"]+)\" ]] || { echo "Elasticsearch gave no key \`$name\`." >&2; exit 1; }
	# The rights last: a run that ends in between makes another key.
	printf '%s\n' "${BASH_REMATCH[1]}" >"$KEYS/.new" && mv -f "$KEYS/.new" "$KEYS/$name"
	printf '%s\n' "$rights" >"$KEYS/.new" && mv -f "$KEYS/.new" "$KEYS/$name.json"
	echo "Made the key \`$name\`."
done
