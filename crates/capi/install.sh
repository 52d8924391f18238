#!/bin/sh
# Builds the C library and installs it: the shared and the static library, the header, cellgate.pc
# and the manual pages. What was installed is printed.
#
#   PREFIX=$HOME/.local crates/capi/install.sh
#
# PREFIX (/usr/local), LIBDIR (PREFIX/lib), INCLUDEDIR (PREFIX/include) and MANDIR (PREFIX/share/man)
# are absolute: what programs are told. DESTDIR comes before each of them while files are copied:
# for packages, and where root, whom PREFIX belongs to, has no Rust. PROFILE is cargo's (release).
set -eu

prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-$prefix/lib}
includedir=${INCLUDEDIR:-$prefix/include}
mandir=${MANDIR:-$prefix/share/man}
destdir=${DESTDIR:-}
for folder in "$prefix" "$libdir" "$includedir" "$mandir"; do
    case $folder in
    /*) ;;
    *) echo "install.sh: $folder is not absolute" >&2 && exit 1 ;;
    esac
done
case $destdir in
'' | /*) ;;
# This changes to the sources.
*) destdir=$PWD/$destdir ;;
esac
cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}

version=$("$cargo" pkgid -p cellgate-capi)
version=${version##*[@#]}
# Before 1.0.0 each minor version may break what was built with the one before.
case $version in
0.*) major=${version%.*} ;;
*) major=${version%%.*} ;;
esac
real=libcellgate.so.$version
soname=libcellgate.so.$major

# What lies in target/ is linked from there, and has no name of its own.
built=$("$cargo" rustc -q -p cellgate-capi --lib --profile "${PROFILE:-release}" \
    --crate-type cdylib,staticlib --message-format json-render-diagnostics \
    -- -C link-arg=-Wl,-soname,"$soname" |
    sed -n 's|.*"filenames":\["\([^"]*\)/libcellgate\.so".*|\1|p')
if [ ! -f "$built/libcellgate.a" ]; then
    echo "install.sh: cargo has built no library" >&2
    exit 1
fi

put() { # MODE FROM TO
    mkdir -p "$destdir$(dirname "$3")"
    install -m "$1" "$2" "$destdir$3"
    echo "$3"
}

link() { # TO AT
    ln -sf "$1" "$destdir$2"
    echo "$2"
}

put 755 "$built/libcellgate.so" "$libdir/$real"
link "$real" "$libdir/$soname"
link "$soname" "$libdir/libcellgate.so"
put 644 "$built/libcellgate.a" "$libdir/libcellgate.a"
put 644 crates/capi/include/cellgate.h "$includedir/cellgate.h"

text=$(mktemp)
trap 'rm -f "$text"' EXIT
# What lies under the prefix is found again where pkg-config is told another one.
under() {
    case $1 in
    "$prefix"/*) printf '${prefix}%s\n' "${1#"$prefix"}" ;;
    *) printf '%s\n' "$1" ;;
    esac
}
cat >"$text" <<EOF
prefix=$prefix
libdir=$(under "$libdir")
includedir=$(under "$includedir")

Name: cellgate
Description: connections with guaranteed rates over ATM
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lcellgate
Libs.private: -lgcc_s -lpthread -lm -ldl -lc
EOF
put 644 "$text" "$libdir/pkgconfig/cellgate.pc"

for page in docs/man/*.3; do
    put 644 "$page" "$mandir/man3/${page##*/}"
    # Each call that the page describes has a page by its own name.
    sed -n '/^\.SH NAME/{n;s/ *\\-.*//;s/, */\n/g;p;}' "$page" | while read -r name; do
        if [ "$name.3" != "${page##*/}" ] && [ ! -f "docs/man/$name.3" ]; then
            echo ".so man3/${page##*/}" >"$text"
            put 644 "$text" "$mandir/man3/$name.3"
        fi
    done
done
