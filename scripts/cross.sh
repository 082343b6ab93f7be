#!/bin/sh
# Builds the program, the benchmarks of sharing, and the tests that can run on a GPU, for x86_64 Linux into out/x86_64, with
# the shared libraries that they need beside them: copy that folder to a machine with a GPU, and run out/x86_64/gridsmith
# there. On x86_64 the ordinary build is enough.
set -eu
cd "$(dirname "$0")/.."

if ! command -v x86_64-linux-gnu-gcc >/dev/null || [ ! -e /usr/lib/x86_64-linux-gnu/libcmocka.so ] ||
    [ ! -e /usr/lib/x86_64-linux-gnu/libsqlite3.so ] || [ ! -e /usr/lib/x86_64-linux-gnu/libuv.so ] ||
    [ ! -e /usr/lib/x86_64-linux-gnu/libzstd.so ]; then
    as_root=
    [ "$(id -u)" = 0 ] || as_root=sudo
    $as_root dpkg --add-architecture amd64
    $as_root apt-get update -qq
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        gcc-x86-64-linux-gnu libjansson-dev:amd64 libsqlite3-dev:amd64 libuv1-dev:amd64 zlib1g-dev:amd64 \
        libcmocka-dev:amd64 libzstd-dev:amd64 >/dev/null
fi
sh scripts/setup.sh build

cmake -G Ninja -S . -B build/x86_64 -DCMAKE_TOOLCHAIN_FILE=cmake/x86_64.cmake -DCMAKE_BUILD_TYPE=Release \
    -DGRIDSMITH_TESTS=ON -DGRIDSMITH_WERROR=ON >/dev/null
tests="test_cuda_on_cpu test_traps test_forms_of_cuda test_worker test_ptx_forms test_ptx_text test_ptx_threads test_ptx_instructions test_ptx_recorded test_zoo_ptx ptx_compare hostile"
# shellcheck disable=SC2086
cmake --build build/x86_64 --target gridsmith share programs pairs bench_worker launches fairness churn recovery guards moves bounds $tests

rm -rf out/x86_64
mkdir -p out/x86_64/lib out/x86_64/gate out/x86_64/front out/x86_64/watch
cp build/x86_64/gate/libcuda.so.1 out/x86_64/gate/
ln -s libcuda.so.1 out/x86_64/gate/libcuda.so
for program in gridsmith bench/share bench/programs bench/pairs bench/bench_worker bench/launches bench/fairness bench/churn bench/recovery bench/guards bench/moves bench/bounds; do
    cp "build/x86_64/$program" out/x86_64/
done
cp build/x86_64/libgridsmith-trace.so out/x86_64/
cp build/x86_64/front/libcuda.so.1 out/x86_64/front/
cp build/x86_64/watch/libcuda.so.1 out/x86_64/watch/
for test in $tests; do
    cp "build/x86_64/tests/$test" out/x86_64/
done
cp -L /usr/lib/x86_64-linux-gnu/libjansson.so.4 out/x86_64/lib/
cp -L /usr/lib/x86_64-linux-gnu/libcmocka.so.0 out/x86_64/lib/
cp -L /usr/lib/x86_64-linux-gnu/libsqlite3.so.0 out/x86_64/lib/
cp -L /usr/lib/x86_64-linux-gnu/libuv.so.1 out/x86_64/lib/
cp -L /usr/lib/x86_64-linux-gnu/libzstd.so.1 out/x86_64/lib/
cp -L /lib/x86_64-linux-gnu/libz.so.1 out/x86_64/lib/
echo "out/x86_64/gridsmith is ready"
