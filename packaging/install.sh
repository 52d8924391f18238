#!/bin/sh
# Copies what lies beside this script to where it belongs, or takes it away again (--remove).
#
#   PREFIX (/usr/local) gets the command, its manual pages and completions. Root also gets the
#   units, the daemon's user and a configuration. DESTDIR comes before every path, for packages.
# Nothing is started or restarted.
set -eu

prefix=${PREFIX:-/usr/local}
destdir=${DESTDIR:-}
case $prefix in
/*) ;;
*) echo "install.sh: $prefix is not absolute" >&2 && exit 1 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
remove=
case ${1:-} in
--remove) remove=1 ;;
'') ;;
*) echo "install.sh: $1: not known; install.sh [--remove]" >&2 && exit 2 ;;
esac

# Where a file goes; nothing: nowhere.
place() {
    case $1 in
    usr/bin/* | usr/share/*) echo "$prefix/${1#usr/}" ;;
    *)
        # The machine's own directories are root's.
        [ "$(id -u)" -ne 0 ] && [ -z "$destdir" ] && return
        case $1 in
        usr/lib/systemd/system/*) echo "/etc/systemd/system/${1##*/}" ;;
        usr/lib/sysusers.d/*) echo "/etc/sysusers.d/${1##*/}" ;;
        etc/*) echo "/$1" ;;
        esac
        ;;
    esac
}

(cd "$here" && find usr etc -type f -o -type l) | sort | while read -r file; do
    to=$(place "$file")
    [ -n "$to" ] || continue
    if [ -n "$remove" ]; then
        [ "${to#/etc/cellgate}" != "$to" ] && continue
        rm -f "$destdir$to"
    elif [ "$to" = /etc/cellgate.toml ] && [ -e "$destdir$to" ]; then
        echo "$to is there, and stays"
        continue
    else
        mkdir -p "$destdir${to%/*}"
        cp -P "$here/$file" "$destdir$to.new"
        # A unit names the program where it is.
        case $to in *.service) sed -i "s|/usr/bin/|$prefix/bin/|" "$destdir$to.new" ;; esac
        mv "$destdir$to.new" "$destdir$to"
    fi
    echo "$to"
done

if [ -z "$remove" ] && [ -z "$destdir" ] && [ "$(id -u)" -eq 0 ] && [ -d /run/systemd/system ]; then
    echo "next: systemd-sysusers && systemctl daemon-reload && systemctl enable --now cellgate"
fi
