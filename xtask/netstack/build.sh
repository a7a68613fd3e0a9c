#!/bin/sh
# build.sh ours|theirs COMMAND...: run `cargo COMMAND` for the programs of the crate
# netstack-smoltcp, over our crate of this name or over the original. cargo fetches the original's
# sources; they are not changed. The programs are in target/netstack/WHO/PROFILE.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
who=$1
shift
folder=$root/target/netstack
source=$folder/source
mkdir -p "$folder/$who-package" "$source/examples" "$source/tests"
cd "$folder/$who-package"
cp "$here/Cargo.toml" "$here/Cargo.lock" .
# A manifest needs its files, and cargo needs the manifest to find them.
for file in examples/forward.rs examples/forward-offload-linux.rs tests/regression.rs; do
    [ -e "$source/$file" ] || : > "$source/$file"
done
cargo fetch --quiet --locked
manifest=$(cargo metadata --format-version 1 --locked --offline |
    sed 's/"manifest_path":"/\n&/g' |
    sed -n 's/^"manifest_path":"\([^"]*\/netstack-smoltcp-[^"]*\)\/Cargo.toml".*/\1/p' | head -n 1)
[ -n "$manifest" ] || { echo "cargo did not fetch netstack-smoltcp" >&2; exit 1; }
for file in examples/forward.rs examples/forward-offload-linux.rs tests/regression.rs; do
    cmp -s "$manifest/$file" "$source/$file" || cp "$manifest/$file" "$source/$file"
done
if [ "$who" = ours ]; then
    cat >> Cargo.toml <<END

[patch.crates-io]
netstack-smoltcp = { path = "$root/crates/sockets/netstack-smoltcp" }
END
fi
command=$1
shift
exec cargo "$command" --quiet --target-dir "$folder/$who" "$@"
