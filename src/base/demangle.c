/*
 * demangle.c: the names of C++ functions as people write them: _Z6reduceILi256EEvPfi is reduce<256>(float*, int).
 *
 * Compilers for Linux encode names by the Itanium C++ ABI. This reader knows what kernels use: nested names, templates
 * with types, numbers and packs, substitutions, pointers, references, arrays, functions, operators, anonymous
 * namespaces, lambdas. Expressions and decltype are not read. A symbol that is not understood as a whole keeps its
 * encoded name: a wrong name would be worse. What is written is what c++filt writes.
 *
 * The names of the functions are those of the grammar: parse_encoding reads <encoding>, and so on. A type is two texts,
 * one for each side of what it qualifies: int (*)(float) is "int (*" and ")(float)". Types and prefixes that were read
 * are kept in a list, because a later S_ or S1_ stands for one of them. T_ stands for a template argument of the
 * function.
 *
 * gs_symbol_next reads less, and never fails on what follows: only the identifiers before template arguments and
 * parameters.
 *
 * All texts live until the end, in one block of memory. Its size also bounds how long a name can get: a short symbol
 * can double its text with each substitution.
 */
#include "base.h"

#include <stdlib.h>

enum { ARENA_BYTES = 1 << 16, MOST_PIECES = 512, MOST_ARGUMENTS = 64, MOST_DEPTH = 100 };

/* A type, a name or a template argument. */
struct piece {
    const char *left, *right;
    bool has_suffix; /* a function or an array: a pointer to it needs parentheses */
    bool is_varying; /* made from one element of a pack: a substitution of it is not known */
    bool is_pack;    /* an argument that stands for several: items[first] and on */
    size_t first, count;
};

/* A name, and what its function needs to know about it. */
struct name {
    struct piece piece;
    bool has_arguments; /* it ends in template arguments, so that the return type is encoded */
    bool has_no_return; /* constructors, destructors and conversions */
    const char *qualifiers;
};

struct demangler {
    const char *at;
    char *arena;
    size_t used;
    struct piece known[MOST_PIECES], arguments[MOST_ARGUMENTS], items[MOST_PIECES];
    size_t known_count, argument_count, item_count;
    const char *last_name; /* of the class whose constructor may follow */
    size_t pack_index, pack_count;
    bool is_in_pack, saw_pack, is_in_lambda;
    int depth;
    bool failed;
};

static struct piece parse_type(struct demangler *d);
static struct name parse_name(struct demangler *d, bool tags);
static struct piece parse_encoding(struct demangler *d, unsigned flags);

/* ---- texts ---- */

static const struct piece nothing = {.left = "", .right = ""};

static struct piece fail(struct demangler *d) {
    d->failed = true;
    return nothing;
}

static const char *join(struct demangler *d, const char *a, const char *b, const char *c) {
    size_t lengths[] = {strlen(a), strlen(b), strlen(c)}, size = lengths[0] + lengths[1] + lengths[2] + 1;
    if (d->failed || size > ARENA_BYTES - d->used) {
        d->failed = true;
        return "";
    }
    char *text = d->arena + d->used;
    memcpy(text, a, lengths[0]);
    memcpy(text + lengths[0], b, lengths[1]);
    memcpy(text + lengths[0] + lengths[1], c, lengths[2] + 1);
    d->used += size;
    return text;
}

static const char *copy(struct demangler *d, const char *bytes, size_t count) {
    if (d->failed || count >= ARENA_BYTES - d->used) {
        d->failed = true;
        return "";
    }
    char *text = d->arena + d->used;
    memcpy(text, bytes, count);
    text[count] = '\0';
    d->used += count + 1;
    return text;
}

/* Both sides of a type. A function type that nothing points to has a blank before its parameters: "void (int)". */
static const char *whole(struct demangler *d, struct piece piece) {
    return join(d, piece.left, piece.has_suffix && piece.right[0] == '(' ? " " : "", piece.right);
}

static struct piece plain(const char *text) {
    return (struct piece){.left = text, .right = ""};
}

static bool ends_in(const char *text, char last) {
    size_t length = strlen(text);
    return length && text[length - 1] == last;
}

/* ---- symbols ---- */

static bool accept(struct demangler *d, const char *word) {
    size_t length = strlen(word);
    if (strncmp(d->at, word, length) != 0)
        return false;
    d->at += length;
    return true;
}

static void expect(struct demangler *d, const char *word) {
    if (!accept(d, word))
        d->failed = true;
}

static bool is_digit(char letter) {
    return letter >= '0' && letter <= '9';
}

static size_t parse_number(struct demangler *d) {
    size_t value = 0;
    if (!is_digit(*d->at))
        d->failed = true;
    for (; is_digit(*d->at); d->at++) {
        value = value * 10 + (size_t)(*d->at - '0');
        if (value > ARENA_BYTES) {
            d->failed = true;
            return 0;
        }
    }
    return value;
}

/* "_" is 0, "0_" is 1; in base 36 for substitutions. */
static size_t parse_sequence(struct demangler *d, unsigned base) {
    size_t value = 0;
    if (accept(d, "_"))
        return 0;
    for (; *d->at != '_'; d->at++) {
        unsigned digit = is_digit(*d->at)                 ? (unsigned)(*d->at - '0')
                         : *d->at >= 'A' && *d->at <= 'Z' ? (unsigned)(*d->at - 'A') + 10
                                                          : base;
        if (digit >= base || value > MOST_PIECES) {
            d->failed = true;
            return 0;
        }
        value = value * base + digit;
    }
    d->at++;
    return value + 1;
}

static void remember(struct demangler *d, struct piece piece) {
    piece.is_varying = d->is_in_pack;
    if (d->known_count < MOST_PIECES)
        d->known[d->known_count++] = piece;
    else
        d->failed = true;
}

/* ---- names ---- */

/* "_GLOBAL__N_1", or what nvcc writes: "_GLOBAL__N__" and a hash. */
static bool is_anonymous(const char *name, size_t length) {
    return length >= 10 && memcmp(name, "_GLOBAL_", 8) == 0 && strchr("_.$", name[8]) && name[9] == 'N';
}

static const char *parse_tags(struct demangler *d, const char *name) {
    while (!d->failed && accept(d, "B")) {
        size_t length = parse_number(d);
        if (d->failed || strlen(d->at) < length)
            return fail(d).left;
        name = join(d, name, "[abi:", join(d, copy(d, d->at, length), "]", ""));
        d->at += length;
    }
    return name;
}

static const char *parse_source_name(struct demangler *d) {
    size_t length = parse_number(d);
    if (d->failed || !length || strnlen(d->at, length) < length)
        return fail(d).left;
    const char *from = d->at;
    d->at += length;
    if (is_anonymous(from, length))
        return "(anonymous namespace)";
    d->last_name = copy(d, from, length);
    return d->last_name;
}

static const char *parse_operator(struct demangler *d) {
    static const struct {
        char code[3];
        const char *name;
    } operators[] = {
        {"nw", " new"}, {"na", " new[]"}, {"dl", " delete"}, {"da", " delete[]"}, {"ps", "+"},   {"ng", "-"},
        {"ad", "&"},    {"de", "*"},      {"co", "~"},       {"pl", "+"},         {"mi", "-"},   {"ml", "*"},
        {"dv", "/"},    {"rm", "%"},      {"an", "&"},       {"or", "|"},         {"eo", "^"},   {"aS", "="},
        {"pL", "+="},   {"mI", "-="},     {"mL", "*="},      {"dV", "/="},        {"rM", "%="},  {"aN", "&="},
        {"oR", "|="},   {"eO", "^="},     {"ls", "<<"},      {"rs", ">>"},        {"lS", "<<="}, {"rS", ">>="},
        {"eq", "=="},   {"ne", "!="},     {"lt", "<"},       {"gt", ">"},         {"le", "<="},  {"ge", ">="},
        {"ss", "<=>"},  {"nt", "!"},      {"aa", "&&"},      {"oo", "||"},        {"pp", "++"},  {"mm", "--"},
        {"cm", ","},    {"pm", "->*"},    {"pt", "->"},      {"cl", "()"},        {"ix", "[]"}};
    for (size_t i = 0; i < GS_COUNT(operators); i++)
        if (accept(d, operators[i].code))
            return join(d, "operator", operators[i].name, "");
    return NULL;
}

/* The types of a list of parameters, up to its end. */
static const char *parse_parameters(struct demangler *d) {
    const char *list = "";
    if (*d->at == 'v' && (!d->at[1] || strchr("E.", d->at[1]))) {
        d->at++;
        return "";
    }
    bool is_first = true;
    while (!d->failed && *d->at && !strchr("E.", *d->at)) {
        const char *type = whole(d, parse_type(d));
        if (type[0]) /* an empty pack has no text */
            list = join(d, list, is_first ? "" : ", ", type);
        is_first = is_first && !type[0];
    }
    return list;
}

static const char *parse_lambda(struct demangler *d) {
    bool before = d->is_in_lambda;
    char number[40];
    d->is_in_lambda = true;
    const char *parameters = parse_parameters(d);
    d->is_in_lambda = before;
    expect(d, "E");
    snprintf(number, sizeof number, ")#%zu}", parse_sequence(d, 10) + 1);
    return join(d, "{lambda(", parameters, number);
}

static const char *parse_unnamed(struct demangler *d) {
    char text[40];
    snprintf(text, sizeof text, "{unnamed type#%zu}", parse_sequence(d, 10) + 1);
    return copy(d, text, strlen(text));
}

/* A constructor or destructor: C1, C2, D0 and so on. */
static bool parse_structor(struct demangler *d, struct name *name) {
    bool is_constructor = *d->at == 'C';
    if ((!is_constructor && *d->at != 'D') || d->at[1] < '0' || d->at[1] > '5' || !d->last_name)
        return false;
    d->at += 2;
    name->piece = plain(join(d, is_constructor ? "" : "~", d->last_name, ""));
    name->has_no_return = true;
    return true;
}

static struct name parse_unqualified(struct demangler *d) {
    struct name name = {.piece = nothing};
    const char *text;
    accept(d, "L");
    if (is_digit(*d->at)) {
        name.piece = plain(parse_source_name(d));
    } else if (parse_structor(d, &name)) {
    } else if (accept(d, "Ul")) {
        name.piece = plain(d->last_name = parse_lambda(d));
    } else if (accept(d, "Ut")) {
        name.piece = plain(d->last_name = parse_unnamed(d));
    } else if (accept(d, "cv")) {
        name.piece = plain(join(d, "operator ", whole(d, parse_type(d)), ""));
        name.has_no_return = true;
    } else if (accept(d, "li")) {
        name.piece = plain(join(d, "operator\"\" ", parse_source_name(d), ""));
    } else if ((text = parse_operator(d))) {
        name.piece = plain(text);
    } else {
        d->failed = true;
    }
    name.piece.left = parse_tags(d, name.piece.left);
    return name;
}

/* ---- template arguments ---- */

/* The digits of a number, and what is written for its type: 256, 256u, true, (char)65. */
static struct piece parse_literal(struct demangler *d) {
    static const char *const suffixes[] = {"i", "", "j", "u", "l", "l", "m", "ul", "x", "ll", "y", "ull"};
    char code = *d->at;
    if (strncmp(d->at, "_Z", 2) == 0) {
        d->at += 2;
        struct piece piece = parse_encoding(d, GS_NAME_RETURN);
        expect(d, "E");
        return piece;
    }
    bool is_bool = code == 'b' && (strncmp(d->at, "b0E", 3) == 0 || strncmp(d->at, "b1E", 3) == 0);
    struct piece type = parse_type(d);
    const char *sign = accept(d, "n") ? "-" : "", *from = d->at;
    while (is_digit(*d->at) || (strchr("fde", code) && *d->at >= 'a' && *d->at <= 'f'))
        d->at++;
    const char *digits = copy(d, from, (size_t)(d->at - from));
    bool is_true = d->at > from && *from == '1';
    if (d->at == from)
        return fail(d);
    expect(d, "E");
    if (is_bool)
        return plain(is_true ? "true" : "false");
    for (size_t i = 0; i < GS_COUNT(suffixes); i += 2)
        if (code == suffixes[i][0])
            return plain(join(d, sign, digits, suffixes[i + 1]));
    if (strchr("fde", code))
        digits = join(d, "[", digits, "]");
    return plain(join(d, join(d, "(", whole(d, type), ")"), sign, digits));
}

static struct piece parse_argument(struct demangler *d);
static struct piece parse_template_parameter(struct demangler *d);

static struct piece parse_pack(struct demangler *d) {
    struct piece items[MOST_ARGUMENTS], pack = {.left = "", .right = "", .is_pack = true};
    while (!d->failed && !accept(d, "E")) {
        if (pack.count == GS_COUNT(items))
            return fail(d);
        items[pack.count] = parse_argument(d);
        pack.left = join(d, pack.left, pack.count ? ", " : "", whole(d, items[pack.count]));
        pack.count++;
    }
    pack.first = d->item_count;
    if (pack.count > MOST_PIECES - d->item_count)
        return fail(d);
    memcpy(d->items + d->item_count, items, pack.count * sizeof *items);
    d->item_count += pack.count;
    return pack;
}

/* The expressions that instances of templates have: an argument, a number, or the address of something. */
static struct piece parse_expression(struct demangler *d) {
    if (*d->at == 'T')
        return parse_template_parameter(d);
    if (accept(d, "L"))
        return parse_literal(d);
    if (!accept(d, "adL_Z"))
        return fail(d);
    const char *text = whole(d, parse_encoding(d, GS_NAME_RETURN));
    expect(d, "E");
    bool is_function = ends_in(text, ')') || strstr(text, ") const");
    return plain(join(d, is_function ? "&(" : "&", text, is_function ? ")" : ""));
}

static struct piece parse_argument(struct demangler *d) {
    if (++d->depth > MOST_DEPTH)
        return fail(d);
    const char *last_name = d->last_name;
    struct piece piece;
    if (accept(d, "X")) {
        piece = parse_expression(d);
        expect(d, "E");
    } else {
        piece = accept(d, "L") ? parse_literal(d) : accept(d, "J") ? parse_pack(d) : parse_type(d);
    }
    d->last_name = last_name;
    d->depth--;
    return piece;
}

/* "<a, b>". If `tags`, T_ stands for these from now on. */
static const char *parse_arguments(struct demangler *d, bool tags) {
    const char *list = "<", *text;
    bool is_first = true;
    expect(d, "I");
    if (tags)
        d->argument_count = 0;
    while (!d->failed && !accept(d, "E")) {
        struct piece piece = parse_argument(d);
        if (tags && d->argument_count == MOST_ARGUMENTS)
            d->failed = true;
        else if (tags)
            d->arguments[d->argument_count++] = piece;
        text = whole(d, piece);
        if (!text[0])
            continue;
        list = join(d, list, is_first ? "" : ", ", text);
        is_first = false;
    }
    return join(d, list, ends_in(list, '>') ? " >" : ">", "");
}

static struct piece add_arguments(struct demangler *d, struct piece to, bool tags) {
    const char *arguments = parse_arguments(d, tags);
    return plain(join(d, to.left, ends_in(to.left, '<') ? " " : "", arguments));
}

/* ---- substitutions ---- */

/* S_, S0_, or one of the names of the standard library. */
static struct piece parse_substitution(struct demangler *d) {
    static const struct {
        char code;
        const char *name, *last;
    } standard[] = {{'a', "std::allocator", "allocator"},
                    {'b', "std::basic_string", "basic_string"},
                    {'s', "std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "basic_string"},
                    {'i', "std::basic_istream<char, std::char_traits<char> >", "basic_istream"},
                    {'o', "std::basic_ostream<char, std::char_traits<char> >", "basic_ostream"},
                    {'d', "std::basic_iostream<char, std::char_traits<char> >", "basic_iostream"}};
    expect(d, "S");
    for (size_t i = 0; i < GS_COUNT(standard); i++)
        if (*d->at == standard[i].code) {
            d->at++;
            d->last_name = standard[i].last;
            return plain(standard[i].name);
        }
    size_t number = parse_sequence(d, 36);
    if (d->failed || number >= d->known_count || d->known[number].is_varying)
        return fail(d);
    return d->known[number];
}

/* T_, T0_. In a lambda it is a parameter that is `auto`. */
static struct piece parse_template_parameter(struct demangler *d) {
    char text[40];
    expect(d, "T");
    size_t number = parse_sequence(d, 10);
    if (d->is_in_lambda && !d->failed) {
        snprintf(text, sizeof text, "auto:%zu", number + 1);
        return plain(copy(d, text, strlen(text)));
    }
    if (d->failed || number >= d->argument_count)
        return fail(d);
    struct piece piece = d->arguments[number];
    if (!piece.is_pack)
        return piece;
    if (!d->is_in_pack)
        return fail(d);
    d->saw_pack = true;
    d->pack_count = piece.count;
    return d->pack_index < piece.count ? d->items[piece.first + d->pack_index] : nothing;
}

/* Reads the pattern once for each element, and at least once to get past it. */
static struct piece parse_expansion(struct demangler *d) {
    const char *from = d->at, *list = "";
    size_t known = d->known_count, count = 1;
    if (d->is_in_pack)
        return fail(d);
    d->is_in_pack = true;
    d->saw_pack = false;
    for (size_t i = 0; (i < count || i == 0) && !d->failed; i++) {
        d->at = from;
        d->known_count = known;
        d->pack_index = i;
        struct piece piece = parse_type(d);
        if (!d->saw_pack || piece.is_pack)
            d->failed = true;
        count = d->pack_count;
        if (i < count)
            list = join(d, list, i ? ", " : "", whole(d, piece));
    }
    d->is_in_pack = false;
    return plain(list);
}

/* ---- nested and local names ---- */

static const char *parse_qualifiers(struct demangler *d) {
    bool is_restrict = accept(d, "r"), is_volatile = accept(d, "V"), is_const = accept(d, "K");
    const char *text = is_const ? " const" : "";
    text = is_volatile ? join(d, text, " volatile", "") : text;
    return is_restrict ? join(d, text, " restrict", "") : text;
}

/* One more part of a nested name. */
static void parse_nested_part(struct demangler *d, struct name *name, bool tags) {
    bool is_empty = !name->piece.left[0];
    if (*d->at == 'I') {
        if (is_empty)
            d->failed = true;
        const char *last_name = d->last_name;
        name->piece = add_arguments(d, name->piece, tags);
        name->has_arguments = true;
        d->last_name = last_name;
        return;
    }
    if (is_empty && strncmp(d->at, "St", 2) == 0) {
        d->at += 2;
        name->piece = plain("std");
        return;
    }
    struct name part = {.piece = nothing};
    if (is_empty && *d->at == 'S')
        part.piece = parse_substitution(d);
    else if (is_empty && *d->at == 'T')
        part.piece = parse_template_parameter(d);
    else
        part = parse_unqualified(d);
    name->has_arguments = false;
    name->has_no_return = part.has_no_return;
    name->piece = is_empty ? part.piece : plain(join(d, name->piece.left, "::", part.piece.left));
}

static struct name parse_nested(struct demangler *d, bool tags) {
    struct name name = {.piece = nothing};
    name.qualifiers = parse_qualifiers(d);
    if (accept(d, "R"))
        name.qualifiers = join(d, name.qualifiers, " &", "");
    else if (accept(d, "O"))
        name.qualifiers = join(d, name.qualifiers, " &&", "");
    while (!d->failed && !accept(d, "E")) {
        bool is_known = *d->at == 'S'; /* "St" and what is known already are not kept */
        parse_nested_part(d, &name, tags);
        if (!is_known && *d->at != 'E')
            remember(d, name.piece);
    }
    if (!name.piece.left[0])
        d->failed = true;
    return name;
}

/* Z function E name: what is declared in a function. */
static struct name parse_local(struct demangler *d, bool tags) {
    struct piece function = parse_encoding(d, 0);
    struct name name = {.piece = nothing};
    expect(d, "E");
    if (accept(d, "s")) {
        name.piece = plain("string literal");
    } else {
        if (accept(d, "d")) /* in a default argument */
            return (struct name){.piece = fail(d)};
        name = parse_name(d, tags);
    }
    if (accept(d, "_")) {
        bool is_long = accept(d, "_");
        parse_number(d);
        if (is_long)
            expect(d, "_");
    }
    name.piece = plain(join(d, whole(d, function), "::", name.piece.left));
    return name;
}

static struct name parse_name(struct demangler *d, bool tags) {
    struct name name = {.piece = nothing};
    bool is_known = false;
    if (++d->depth > MOST_DEPTH) {
        d->failed = true;
    } else if (accept(d, "N")) {
        name = parse_nested(d, tags);
    } else if (accept(d, "Z")) {
        name = parse_local(d, tags);
    } else {
        if (accept(d, "St")) {
            name = parse_unqualified(d);
            name.piece.left = join(d, "std::", name.piece.left, "");
        } else if (*d->at == 'S') {
            name.piece = parse_substitution(d);
            is_known = true;
        } else {
            name = parse_unqualified(d);
        }
        if (*d->at == 'I') {
            if (!is_known)
                remember(d, name.piece);
            name.piece = add_arguments(d, name.piece, tags);
            name.has_arguments = true;
        } else if (is_known && d->depth == 1) {
            d->failed = true;
        }
    }
    d->depth--;
    return name;
}

/* ---- types ---- */

static const char *builtin_type(struct demangler *d) {
    static const struct {
        const char *code, *name;
    } types[] = {{"v", "void"},
                 {"w", "wchar_t"},
                 {"b", "bool"},
                 {"c", "char"},
                 {"a", "signed char"},
                 {"h", "unsigned char"},
                 {"s", "short"},
                 {"t", "unsigned short"},
                 {"i", "int"},
                 {"j", "unsigned int"},
                 {"l", "long"},
                 {"m", "unsigned long"},
                 {"x", "long long"},
                 {"y", "unsigned long long"},
                 {"n", "__int128"},
                 {"o", "unsigned __int128"},
                 {"f", "float"},
                 {"d", "double"},
                 {"e", "long double"},
                 {"g", "__float128"},
                 {"z", "..."},
                 {"Dh", "half"},
                 {"DF16_", "_Float16"},
                 {"DF16b", "std::bfloat16_t"},
                 {"Di", "char32_t"},
                 {"Ds", "char16_t"},
                 {"Du", "char8_t"},
                 {"Da", "auto"},
                 {"Dc", "decltype(auto)"},
                 {"Dn", "decltype(nullptr)"}};
    for (size_t i = 0; i < GS_COUNT(types); i++)
        if (accept(d, types[i].code))
            return types[i].name;
    return NULL;
}

/* `sign` is *, & or &&; a reference to a reference is the weaker of both. */
static struct piece point_to(struct demangler *d, struct piece type, const char *sign) {
    if (sign[0] == '&' && ends_in(type.left, '&') && !type.has_suffix) {
        if (sign[1] || !ends_in(type.left, '&') || strlen(type.left) < 2 || type.left[strlen(type.left) - 2] != '&')
            return type;
        return (struct piece){.left = copy(d, type.left, strlen(type.left) - 1), .right = type.right};
    }
    if (type.has_suffix)
        return (struct piece){.left = join(d, type.left, " (", sign), .right = join(d, ")", type.right, "")};
    return (struct piece){.left = join(d, type.left, sign, ""), .right = type.right};
}

static struct piece parse_function_type(struct demangler *d, const char *after) {
    expect(d, "F");
    accept(d, "Y");
    struct piece result = parse_type(d);
    const char *parameters = parse_parameters(d);
    if (accept(d, "R"))
        after = join(d, after, " &", "");
    else if (accept(d, "O"))
        after = join(d, after, " &&", "");
    expect(d, "E");
    const char *right = join(d, "(", parameters, join(d, ")", after, ""));
    return (struct piece){.left = result.left, .right = join(d, right, result.right, ""), .has_suffix = true};
}

static struct piece parse_array_type(struct demangler *d) {
    const char *from = d->at;
    if (*d->at != '_')
        parse_number(d);
    const char *count = copy(d, from, (size_t)(d->at - from));
    expect(d, "_");
    struct piece element = parse_type(d);
    const char *rest = element.has_suffix && element.right[0] == ' ' ? element.right + 1 : element.right;
    return (struct piece){
        .left = element.left, .right = join(d, join(d, " [", count, "]"), rest, ""), .has_suffix = true};
}

static struct piece parse_member_pointer(struct demangler *d) {
    const char *of = whole(d, parse_type(d));
    struct piece type = parse_type(d);
    const char *sign = join(d, of, "::*", "");
    if (type.has_suffix)
        return (struct piece){.left = join(d, type.left, " (", sign), .right = join(d, ")", type.right, "")};
    return (struct piece){.left = join(d, type.left, " ", sign), .right = type.right};
}

/* const, volatile and restrict; before a function, they are those of a member function. */
static struct piece parse_qualified_type(struct demangler *d) {
    const char *qualifiers = parse_qualifiers(d);
    if (*d->at == 'F')
        return parse_function_type(d, qualifiers);
    struct piece type = parse_type(d);
    if (type.has_suffix || type.is_pack)
        return type.has_suffix
                   ? (struct piece){.left = join(d, type.left, qualifiers, ""), .right = type.right, .has_suffix = true}
                   : fail(d);
    type.left = join(d, type.left, qualifiers, "");
    return type;
}

/* A template parameter, which may be a template that gets arguments. */
static struct piece parse_parameter_type(struct demangler *d) {
    struct piece type = parse_template_parameter(d);
    if (*d->at != 'I')
        return type;
    remember(d, type);
    return add_arguments(d, type, false);
}

/* A substitution, which is kept again only if arguments make another type of it. */
static struct piece parse_known_type(struct demangler *d) {
    struct piece type = parse_substitution(d);
    if (*d->at != 'I')
        return type;
    type = add_arguments(d, type, false);
    remember(d, type);
    return type;
}

static struct piece parse_new_type(struct demangler *d) {
    switch (*d->at) {
    case 'r':
    case 'V':
    case 'K':
        return parse_qualified_type(d);
    case 'P':
        d->at++;
        return point_to(d, parse_type(d), "*");
    case 'R':
        d->at++;
        return point_to(d, parse_type(d), "&");
    case 'O':
        d->at++;
        return point_to(d, parse_type(d), "&&");
    case 'F':
        return parse_function_type(d, "");
    case 'A':
        d->at++;
        return parse_array_type(d);
    case 'M':
        d->at++;
        return parse_member_pointer(d);
    case 'T':
        return parse_parameter_type(d);
    case 'u':
        d->at++;
        return plain(parse_source_name(d));
    default:
        break;
    }
    if (accept(d, "Do"))
        return parse_function_type(d, " noexcept");
    if (accept(d, "Dp"))
        return parse_expansion(d);
    return is_digit(*d->at) || strchr("NZS", *d->at) ? parse_name(d, false).piece : fail(d);
}

static struct piece parse_type(struct demangler *d) {
    const char *last_name = d->last_name, *builtin;
    struct piece type = nothing;
    if (!*d->at || d->failed || ++d->depth > MOST_DEPTH)
        return fail(d);
    if (*d->at == 'S' && d->at[1] != 't') {
        type = parse_known_type(d);
    } else if ((builtin = builtin_type(d))) {
        type = plain(builtin);
    } else {
        type = parse_new_type(d);
        remember(d, type);
    }
    d->last_name = last_name;
    d->depth--;
    return type;
}

/* ---- whole symbols ---- */

static const char *parse_special(struct demangler *d) {
    static const struct {
        const char *code, *words;
        bool is_name;
    } special[] = {{"TV", "vtable for ", false},          {"TT", "VTT for ", false},
                   {"TI", "typeinfo for ", false},        {"TS", "typeinfo name for ", false},
                   {"GV", "guard variable for ", true},   {"TW", "TLS wrapper function for ", true},
                   {"TH", "TLS init function for ", true}};
    for (size_t i = 0; i < GS_COUNT(special); i++)
        if (accept(d, special[i].code))
            return join(d, special[i].words,
                        special[i].is_name ? parse_name(d, false).piece.left : whole(d, parse_type(d)), "");
    return NULL;
}

/* A function with its parameters, or the name of a variable. Functions with template arguments have their return type
   encoded, which is written if the flags say so. */
static struct piece parse_encoding(struct demangler *d, unsigned flags) {
    if (++d->depth > MOST_DEPTH)
        return fail(d);
    const char *special = parse_special(d);
    if (special) {
        d->depth--;
        return plain(special);
    }
    size_t saved_count = d->argument_count;
    struct piece saved[MOST_ARGUMENTS];
    memcpy(saved, d->arguments, saved_count * sizeof *saved);
    struct name name = parse_name(d, true);
    struct piece all = plain(name.piece.left);
    if (*d->at && !strchr("E.", *d->at)) {
        struct piece result = name.has_arguments && !name.has_no_return ? parse_type(d) : nothing;
        const char *parameters = parse_parameters(d);
        const char *after = join(d, ")", name.qualifiers ? name.qualifiers : "", "");
        if (!(flags & GS_NAME_RETURN))
            result = nothing;
        if (!(flags & GS_NAME_ALONE))
            all.left = join(d, all.left, "(", join(d, parameters, after, ""));
        if (result.left[0])
            all.left = join(d, join(d, result.left, " ", ""), all.left, result.right);
    }
    memcpy(d->arguments, saved, saved_count * sizeof *saved);
    d->argument_count = saved_count;
    d->depth--;
    return all;
}

char *gs_demangle(const char *symbol, unsigned flags) {
    struct demangler *d = strncmp(symbol, "_Z", 2) == 0 ? calloc(1, sizeof *d) : NULL;
    char *arena = d ? malloc(ARENA_BYTES) : NULL, *name = NULL;
    if (arena) {
        d->arena = arena;
        d->at = symbol + 2;
        struct piece all = parse_encoding(d, flags);
        if (!d->failed && !*d->at)
            name = strdup(whole(d, all));
        if (d->failed) {
            free(name);
            name = NULL;
        }
    }
    free(arena);
    free(d);
    return name ? name : strdup(symbol);
}

bool gs_symbol_next(gs_symbol *symbol) {
    if (!symbol->at) {
        bool is_symbol = strncmp(symbol->text, "_Z", 2) == 0;
        symbol->at = symbol->text + (is_symbol ? 2 : strlen(symbol->text));
        symbol->is_nested = *symbol->at == 'N';
        symbol->at += symbol->is_nested;
    } else if (!symbol->is_nested) {
        return false;
    }
    while (*symbol->at >= '1' && *symbol->at <= '9') {
        char *name;
        size_t length = strtoul(symbol->at, &name, 10);
        if (length > strlen(name))
            return false;
        symbol->at = name + length;
        if (is_anonymous(name, length))
            continue;
        symbol->name = name;
        symbol->length = length;
        return true;
    }
    return false;
}
