/*
 * test_demangle.c: kernels have the names that their authors gave them; a symbol that is not understood stays
 * unchanged.
 *
 * The names in the table are those of c++filt. If c++filt is on this machine, it is also asked about all functions of
 * the C++ library.
 */
#include "test.h"

#include "base/base.h"

#include <stdlib.h>
#include <unistd.h>

static void expect(const char *symbol, unsigned flags, const char *name) {
    char *found = gs_demangle(symbol, flags);
    assert_string_equal(found, name);
    free(found);
}

static const struct {
    const char *symbol, *name;
} names[] = {
    {"_Z6reduceILi256EEvPfi", "void reduce<256>(float*, int)"},
    {"_Z3addPfPKfi", "add(float*, float const*, int)"},
    {"_Z1kv", "k()"},
    {"_Z1kz", "k(...)"},
    {"_ZN2ns5inner6kernelIfLj4ELb1EEEvPT_PKS2_", "void ns::inner::kernel<float, 4u, true>(float*, float const*)"},
    {"_ZN12_GLOBAL__N_16kernelEv", "(anonymous namespace)::kernel()"},
    {"_ZN41_GLOBAL__N__8f2d5be0_4_k_cu_7c9b1e2a_10726kernelEPd", "(anonymous namespace)::kernel(double*)"},
    {"_Z1kIN1a1bINS0_1cEEEEvT_RKS3_", "void k<a::b<a::c> >(a::b<a::c>, a::b<a::c> const&)"},
    {"_Z1kILin5ELl7ELm8ELx9ELy10ELc65ELb0EEvv", "void k<-5, 7l, 8ul, 9ll, 10ull, (char)65, false>()"},
    {"_Z1kILN2ns5ColorE2EEvv", "void k<(ns::Color)2>()"},
    {"_Z1kPFvifE", "k(void (*)(int, float))"},
    {"_Z1kRA4_A8_Kf", "k(float const (&) [4][8])"},
    {"_Z1kPA16_i", "k(int (*) [16])"},
    {"_Z1kM1AFvvEMS_i", "k(void (A::*)(), int A::*)"},
    {"_Z1kPVKPrf", "k(float restrict* const volatile*)"},
    {"_Z1kIRiEvOT_", "void k<int&>(int&)"},
    {"_Z1kIOiEvRT_OS1_", "void k<int&&>(int&, int&&)"},
    {"_Z1kIiEvOT_", "void k<int>(int&&)"},
    {"_Z1kIJifdEEvDpT_", "void k<int, float, double>(int, float, double)"},
    {"_Z1kIJifEEvDpRKT_i", "void k<int, float>(int const&, float const&, int)"},
    {"_Z1kIJEEvDpT_i", "void k<>(int)"},
    {"_Z1kIiTtTyEvv", "_Z1kIiTtTyEvv"},
    {"_Z1kI3FooIJiS0_IJEEEEEvT_", "void k<Foo<int, Foo<> > >(Foo<int, Foo<> >)"},
    {"_ZNK1AclEi", "A::operator()(int) const"},
    {"_ZN1AlsIiEERS_T_", "A& A::operator<< <int>(int)"},
    {"_ZN1AC2Ei", "A::A(int)"},
    {"_ZN1AIiED1Ev", "A<int>::~A()"},
    {"_ZN1AcvfEv", "A::operator float()"},
    {"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const"},
    {"_Z1kIZ4mainEUliE0_EvT_", "void k<main::{lambda(int)#2}>(main::{lambda(int)#2})"},
    {"_ZZ11blockReduceIXadL_Z13warpReduceMaxfEEEffbfE10shared_val",
     "blockReduce<&(warpReduceMax(float))>(float, bool, float)::shared_val"},
    {"_Z28matmul_backward_bias_kernel8IfLb1EEvPT_PK13__nv_bfloat16iiiSt17integral_constantIbXT0_EE",
     "void matmul_backward_bias_kernel8<float, true>(float*, __nv_bfloat16 const*, int, int, int, "
     "std::integral_constant<bool, true>)"},
    {"_ZL5tablei", "table(int)"},
    {"_ZN3cub5tableE", "cub::table"},
    {"_Z1kSt8functionIFivEE", "k(std::function<int ()>)"},
    {"_Z1kSs", "k(std::basic_string<char, std::char_traits<char>, std::allocator<char> >)"},
    {"_Z1kN1AB3tagE", "k(A[abi:tag])"},
    {"_Z1kDh", "k(half)"},
    {"_ZTV1A", "vtable for A"},
    /* Not symbols, or not understood. */
    {"main", "main"},
    {"", ""},
    {"_Z", "_Z"},
    {"_Z3ad", "_Z3ad"},
    {"_Z3addPf_param_0", "_Z3addPf_param_0"},
    {"_Z3addS_", "_Z3addS_"},
    {"_Z3addT_", "_Z3addT_"},
    {"_ZN3addE3", "_ZN3addE3"},
    {"_Z99999999999999999999k", "_Z99999999999999999999k"},
    {"_Z1kIXsr1A1bEEvv", "_Z1kIXsr1A1bEEvv"},
};

TEST(names_are_those_of_cppfilt) {
    for (size_t i = 0; i < GS_COUNT(names); i++)
        expect(names[i].symbol, GS_NAME_RETURN, names[i].name);
}

TEST(a_name_comes_with_as_much_as_is_asked_for) {
    expect("_Z6reduceILi256EEvPfi", 0, "reduce<256>(float*, int)");
    expect("_Z6reduceILi256EEvPfi", GS_NAME_ALONE, "reduce<256>");
    expect("_ZN2ns3addEPf", GS_NAME_ALONE, "ns::add");
    expect("vector_add", GS_NAME_ALONE, "vector_add");
}

static void expect_identifiers(const char *text, const char *wanted) {
    gs_symbol symbol = {.text = text};
    gs_text found = {0};
    gs_text_put(&found, "", 0);
    while (gs_symbol_next(&symbol))
        gs_text_add(&found, "%.*s ", (int)symbol.length, symbol.name);
    gs_text_add(&found, "|%s", symbol.at);
    assert_string_equal(found.data, wanted);
    gs_text_free(&found);
}

/* Also where the rest of the symbol is not understood. */
TEST(identifiers_come_before_arguments_and_parameters) {
    expect_identifiers("_ZN2at6native3addIXsr1A1bEEvPT_", "at native add |IXsr1A1bEEvPT_");
    expect_identifiers("_Z4spin3Foo", "spin |3Foo");
    expect_identifiers("_ZN2ns12_GLOBAL__N_14spinEv", "ns spin |Ev");
    expect_identifiers("_ZN1a9b", "a |9b");
    expect_identifiers("_Z99999999999999999999k", "|99999999999999999999k");
    expect_identifiers("_Z", "|");
    expect_identifiers("4spin", "|");
    expect_identifiers("", "|");
}

/* A substitution can double the text; a symbol of these would have a name of gigabytes. */
TEST(long_names_stay_symbols) {
    gs_text symbol = {0};
    gs_text_add(&symbol, "_Z1k1AIiiE");
    for (int i = 0; i < 30; i++)
        gs_text_add(&symbol, "S_IS%c_S%c_E", i < 10 ? '0' + i : 'A' + i - 10, i < 10 ? '0' + i : 'A' + i - 10);
    expect(symbol.data, 0, symbol.data);
    gs_text_clear(&symbol);
    gs_text_add(&symbol, "_Z1k");
    for (int i = 0; i < 100000; i++)
        gs_text_put(&symbol, "P", 1);
    expect(symbol.data, 0, symbol.data);
    gs_text_clear(&symbol);
    gs_text_add(&symbol, "_Z1kI");
    for (int i = 0; i < 65; i++)
        gs_text_put(&symbol, "i", 1);
    gs_text_add(&symbol, "EvT_");
    expect(symbol.data, 0, symbol.data);
    gs_text_free(&symbol);
}

/* Whether two names differ in more than the blank in "> >", which c++filt forgets before an empty pack. */
static bool differ(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a == ' ')
            a++;
        while (*b == ' ')
            b++;
        if (*a != *b || !*a)
            return *a != *b;
    }
}

/* Writes the symbols of the C++ library, and the names that c++filt prints for them. */
static bool list_library(const char *base) {
    static const char script[] = "for lib in /usr/lib/*/libstdc++.so.6 /usr/lib64/libstdc++.so.6; do [ -e $lib ] || "
                                 "continue; nm -D $lib | sed 's/.* //; s/@.*//' | grep '^_Z' | sort -u >$0.symbols && "
                                 "c++filt <$0.symbols >$0.names; exit; done; exit 1";
    char command[200];
    setenv("GRIDSMITH_SCRIPT", script, 1);
    snprintf(command, sizeof command, "sh -c \"$GRIDSMITH_SCRIPT\" %s", base);
    return system("command -v c++filt nm >/dev/null") == 0 && system(command) == 0;
}

static void compare(FILE *symbols, FILE *names_file) {
    char *symbol = NULL, *name = NULL;
    size_t symbol_size = 0, name_size = 0, same = 0, all = 0;
    while (getline(&symbol, &symbol_size, symbols) > 0 && getline(&name, &name_size, names_file) > 0) {
        symbol[strcspn(symbol, "\n")] = name[strcspn(name, "\n")] = '\0';
        char *found = gs_demangle(symbol, GS_NAME_RETURN);
        bool is_same = !differ(found, name);
        if (!is_same && strcmp(found, symbol) != 0)
            fail_msg("%s: %s, not %s", symbol, found, name);
        same += is_same;
        all++;
        free(found);
    }
    assert_true(all > 1000 && same * 100 >= all * 95);
    free(symbol);
    free(name);
}

TEST(functions_of_the_cpp_library_have_their_names) {
    char base[] = "/tmp/gridsmith-names-XXXXXX", symbols_path[64], names_path[64];
    int file = mkstemp(base);
    assert_true(file >= 0);
    close(file);
    snprintf(symbols_path, sizeof symbols_path, "%s.symbols", base);
    snprintf(names_path, sizeof names_path, "%s.names", base);
    bool is_listed = list_library(base);
    FILE *symbols = fopen(symbols_path, "r"), *names_file = fopen(names_path, "r");
    unlink(base);
    unlink(symbols_path);
    unlink(names_path);
    if (is_listed)
        compare(symbols, names_file);
    if (symbols)
        fclose(symbols);
    if (names_file)
        fclose(names_file);
    if (!is_listed)
        skip();
}

TEST_MAIN(NULL, NULL)
