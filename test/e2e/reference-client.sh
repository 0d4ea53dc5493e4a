#!/bin/sh
# What a client of the interface does, with curl: the life of a role, and a dataset that moves to another server.
# Usage: reference-client.sh BASE_URL USER:PASSWORD OTHER_BASE_URL OTHER_USER:PASSWORD
# Prints the answer to each request under its name, with the status where it is not 200.
set -eu

base=$1 login=$2 other=$3 other_login=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# request NAME LOGIN CURL-ARGUMENTS...: the answer is kept in $folder/answer too.
request() {
  name=$1 as=$2
  shift 2
  code=$(curl --silent --show-error --user "$as" --output "$folder/answer" --write-out '%{http_code}' \
    --header 'Content-Type: application/json;charset=utf8' "$@")
  echo "# $name"
  [ "$code" = 200 ] || echo "HTTP $code"
  cat "$folder/answer"
  echo
}

request 'create a role' "$login" --request POST "$base/api/role" --data '
{"name":"analysts","contains":[{"type":"user","name":"ann"},{"type":"user","name":"bob"}],"description":"Sales of all years"}'
role=$(sed -n 's/.*"role_id":\([0-9]*\).*/\1/p' "$folder/answer")

request 'read it' "$login" --request GET "$base/api/role/$role"
request 'update it' "$login" --request PUT "$base/api/role/$role" --data '
{"name":"sales analysts","contains":[{"type":"user","name":"ann"}],"description":"Größe und Umsatz"}'
request 'add a user' "$login" --request POST "$base/api/role/user/visibility/$role" --data '
{"name":"sales analysts","contains":[{"type":"user","name":"carol"}],"description":""}'
request 'read what it is now' "$login" --request GET "$base/api/role/$role"
request 'remove a user' "$login" --request DELETE "$base/api/role/user/visibility/$role" --data '
{"name":"sales analysts","contains":[{"type":"user","name":"ann"}],"description":""}'
request 'list the roles' "$login" --request GET "$base/api/roles?pageNum=0&pageSize=10&containsDesc=true"
request 'list them by name, without descriptions' "$login" --request GET \
  "$base/api/roles?pageNum=0&pageSize=10&containsDesc=false&RoleName=ANALYST"
request 'delete it' "$login" --request DELETE "$base/api/role/$role"
request 'read what is gone' "$login" --request GET "$base/api/role/$role"

cat >"$folder/dataset.json" <<'END'
{
  "project": "learn_kylin",
  "dataset_name": "Umsätze",
  "type": "MDX",
  "canvas": {"models": [{"x": 1.10, "y": -0, "id": 9007199254740993}]},
  "access": null
}
END
request 'import a dataset' "$login" --request POST "$base/api/dataset?createType=import" \
  --data-binary "@$folder/dataset.json"
request 'import it again' "$login" --request POST "$base/api/dataset?createType=import" \
  --data-binary "@$folder/dataset.json"

echo '# export it to a file'
curl --silent --show-error --user "$login" --header 'Content-Type: application/json;charset=utf8' \
  --get "$base/api/dataset" --data-urlencode 'project=learn_kylin' --data-urlencode 'datasetType=mdx' \
  --data-urlencode 'datasetName=Umsätze' --output "$folder/exported.json"
cmp "$folder/dataset.json" "$folder/exported.json" && echo 'the same bytes'

request 'import the file elsewhere' "$other_login" --request POST \
  "$other/api/dataset?createType=import" --data-binary "@$folder/exported.json"
request 'update it there' "$other_login" --request PUT "$other/api/dataset" \
  --data-binary "@$folder/exported.json"
request 'list the datasets there' "$other_login" --request GET \
  "$other/api/datasets/MDX/learn_kylin/"
