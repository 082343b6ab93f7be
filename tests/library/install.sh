#!/bin/sh
# The library as another project uses it: installed, found by pkg-config and by CMake, built into the example, run.
#
#   sh tests/library/install.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1
source_dir=$2
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" || true; rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/usr" >/dev/null
libdir=$(dirname "$(find "$work/usr" -name gridsmith.pc)")
PKG_CONFIG_PATH=$libdir
LD_LIBRARY_PATH=$(dirname "$libdir")
export PKG_CONFIG_PATH LD_LIBRARY_PATH

# shellcheck disable=SC2046
cc -std=c17 -Wall -Wextra -Werror "$source_dir/examples/dispatcher.c" -o "$work/by-pkg-config" \
    $(pkg-config --cflags --libs gridsmith)
env -u LD_LIBRARY_PATH "$work/by-pkg-config" | diff "$source_dir/examples/expected/dispatcher.txt" -

cmake -G Ninja -S "$source_dir/examples" -B "$work/example" -DCMAKE_PREFIX_PATH="$work/usr" >/dev/null
cmake --build "$work/example" >/dev/null
for expected in "$source_dir"/examples/expected/*.txt; do
    "$work/example/$(basename "$expected" .txt)" | diff "$expected" -
done

# The file of docs/install.md, as it is printed there.
mkdir "$work/ten"
awk '/^```cmake/ { inside = 1; next } /^```/ { inside = 0 } inside' "$source_dir/docs/install.md" >"$work/ten/CMakeLists.txt"
cp "$source_dir/examples/dispatcher.c" "$work/ten/sim.c"
cmake -G Ninja -S "$work/ten" -B "$work/ten/build" -DCMAKE_PREFIX_PATH="$work/usr" >/dev/null
cmake --build "$work/ten/build" >/dev/null
env -u LD_LIBRARY_PATH "$work/ten/build/sim" | diff "$source_dir/examples/expected/dispatcher.txt" -

# The header is good C++ too, and the shared library shows nothing but the public names.
printf '#include <gridsmith/gridsmith.h>\nint main() { return gs_gpu_open("h200", nullptr) == nullptr; }\n' >"$work/main.cpp"
# shellcheck disable=SC2046
c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror "$work/main.cpp" -o "$work/cpp" $(pkg-config --cflags --libs gridsmith)
"$work/cpp"
nm -D --defined-only "$(dirname "$libdir")/libgridsmith.so" | awk '{print $3}' | grep '^gs_' >"$work/versioned"
sed -n 's/@@GRIDSMITH_[0-9.]*$//p' "$work/versioned" | sort >"$work/shown"
[ "$(wc -l <"$work/shown")" = "$(wc -l <"$work/versioned")" ] || { echo "a public name has no version" && exit 1; }
grep -o '\bgs_[a-z_]*(' "$source_dir/include/gridsmith/gridsmith.h" | tr -d '(' | sort -u >"$work/declared"
comm -23 "$work/shown" "$work/declared" >"$work/extra"
if [ -s "$work/extra" ]; then
    echo "the shared library shows names that the header does not declare:" && cat "$work/extra" && exit 1
fi

# The library needs jansson and zlib, and neither libuv nor SQLite.
if { pkg-config --static --libs gridsmith; readelf -d "$(dirname "$libdir")/libgridsmith.so"; } | grep -E 'libuv|-luv|sqlite'; then
    echo "libgridsmith needs libuv or SQLite" && exit 1
fi

# The recorder needs the C library alone, shows the names that the driver and NVTX call, and is found where it is installed.
recorder=$(dirname "$libdir")/gridsmith/libgridsmith-trace.so
[ "$(nm -D --defined-only "$recorder" | awk '{print $3}' | sort | tr '\n' ' ')" = "InitializeInjection InitializeInjectionNvtx2 " ]
if readelf -d "$recorder" | grep NEEDED | grep -vE 'libc\.|libdl\.|libpthread\.|ld-linux'; then
    echo "the recorder needs more than the C library" && exit 1
fi
"$work/usr/bin/gridsmith" trace -o "$work/trace.jsonl" -- \
    sh -c 'cmp "$CUDA_INJECTION64_PATH" "$0"' "$recorder" 2>/dev/null

# So does the library in front of the driver, which exports the symbols of the driver.
front=$(dirname "$libdir")/gridsmith/front/libcuda.so.1
if readelf -d "$front" | grep NEEDED | grep -vE 'libc\.|libdl\.|libpthread\.|ld-linux'; then
    echo "the library in front of the driver needs more than the C library" && exit 1
fi
nm -D --defined-only "$front" | grep -q ' cuLaunchKernel$' || { echo "$front does not show the driver's functions" && exit 1; }

# Nor do the two libraries in front of the driver show names of ours to the programs that load them.
for folder in front gate; do
    if nm -D --defined-only "$(dirname "$libdir")/gridsmith/$folder/libcuda.so.1" | grep ' gs_'; then
        echo "$folder/libcuda.so.1 shows names of gridsmith" && exit 1
    fi
done

# The client library needs the C library alone, shows its calls alone, and its example runs through a daemon.
nm -D --defined-only "$(dirname "$libdir")/libgridsmith-client.so" | awk '{print $3}' | grep '^gs_' | sort >"$work/shown"
grep -o '\bgs_client_[a-z_]*(' "$source_dir/include/gridsmith/client.h" | tr -d '(' | sort -u >"$work/declared"
diff "$work/declared" "$work/shown"
printf '#include <gridsmith/client.h>\nint main() { return gs_client_meaning(GS_CLIENT_OK) == nullptr; }\n' >"$work/main.cpp"
# shellcheck disable=SC2046
c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror "$work/main.cpp" -o "$work/cpp" \
    $(pkg-config --cflags --libs gridsmith-client)
"$work/cpp"
# shellcheck disable=SC2046
cc -std=c17 -Wall -Wextra -Werror "$source_dir/examples/share.c" -o "$work/share" \
    $(pkg-config --cflags --libs gridsmith-client)
GRIDSMITH_SOCKET=$work/socket
export GRIDSMITH_SOCKET
"$work/usr/bin/gridsmith" serve --device host --cache "$work/cache" --profiles '' 2>"$work/log" &
daemon=$!
tries=0
until "$work/usr/bin/gridsmith" status >/dev/null 2>&1 || [ $tries -gt 1200 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
for program in "$work/share" "$work/example/share"; do
    test "$("$program" 2>>"$work/log")" = "0 of 100000 are wrong" || { cat "$work/log" && exit 1; }
done
kill $daemon
wait $daemon
daemon=
test -f "$work/usr/lib/systemd/user/gridsmith.socket"
if command -v systemd-analyze >/dev/null; then
    mkdir "$work/units"
    cp "$work/usr/lib/systemd/system/gridsmith.socket" "$work/units"
    sed "s|^ExecStart=[^ ]*|ExecStart=$work/usr/bin/gridsmith|" "$work/usr/lib/systemd/system/gridsmith.service" \
        >"$work/units/gridsmith.service"
    systemd-analyze verify --man=no "$work/units/gridsmith.service" "$work/units/gridsmith.socket"
fi
grep -q '^u gridsmith ' "$work/usr/lib/sysusers.d/gridsmith.conf"
test -s "$work/usr/share/bash-completion/completions/gridsmith"

for page in gridsmith gridsmith-serve gridsmith-predict gridsmith-check gridsmith-occupancy gridsmith-gpus gridsmith-fit gridsmith-probe; do
    test -f "$work/usr/share/man/man1/$page.1"
done
"$work/usr/bin/gridsmith" gpus >/dev/null
echo "installed, found and used by pkg-config and CMake"
