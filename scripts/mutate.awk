# mutate.awk: the single faults that can be planted in a C file, and the file with some of them planted.
#
#   awk -v mode=list  -f mutate.awk FILE          # one line for each fault: NUMBER, LINE, KIND, what is changed, into what
#   awk -v mode=plant -v chosen=LIST -f mutate.awk FILE
#
# The second form prints the file with the faults of LIST, which has lines "ORDINAL FAULT": fault FAULT of the whole
# program is the ORDINAL-th of this file. A planted file behaves as the original as long as gs_mutant is none of the
# numbers, and has fault 17 while gs_mutant is 17: everything is compiled once, and a test is told its fault when it starts. GS_FAULT(17) is
# gs_mutant == 17, and notes that the place of fault 17 was reached.
#
# The file is cut into tokens, and the tokens of function bodies into statements. A fault lies in one region: a condition,
# a value that is assigned, returned or initialized with, or a whole expression statement. An expression E becomes
# (GS_FAULT(17) ? (faulty E) : (E)), a statement S becomes { if (GS_FAULT(17)) { faulty S } else { S } }. Code is
# formatted by clang-format: a binary operator has blanks on both sides.

# ---- tokens ----

# Blanks out what is no code: comments, strings, characters, lines of the preprocessor. The length stays.
function cut_tokens(    i, n, c, two, start, line, is_start) {
    n = split(whole, letter, "")
    line = 1
    is_start = 1
    for (i = 1; i <= n; i++) {
        c = letter[i]
        two = c letter[i + 1]
        if (c == "\n") {
            line++
            is_start = 1
        } else if (c == " " || c == "\t") {
            continue
        } else if (c == "#" && is_start) {
            for (; i <= n && letter[i] != "\n"; i++)
                if (letter[i] == "\\" && letter[i + 1] == "\n") {
                    i++
                    line++
                }
            line++
        } else if (two == "/*") {
            for (i += 2; letter[i] letter[i + 1] != "*/"; i++)
                line += letter[i] == "\n"
            i++
        } else if (two == "//") {
            for (; letter[i] != "\n"; i++)
                ;
            line++
        } else {
            is_start = 0
            start = i
            if (c == "\"" || c == "'") {
                for (i++; letter[i] != c; i++)
                    i += letter[i] == "\\"
            } else if (c ~ /[A-Za-z_0-9]/) {
                while (letter[i + 1] ~ /[A-Za-z_0-9]/ || (c ~ /[0-9]/ && letter[i + 1] == ".") ||
                       (c ~ /[0-9]/ && letter[i] == "e" && letter[i + 1] == "-"))
                    i++
            } else if (two letter[i + 2] == "..." || two letter[i + 2] == "<<=" || two letter[i + 2] == ">>=") {
                i += 2
            } else if (two ~ /^(->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*\/%&|^]=)$/) {
                i++
            }
            from[++tokens] = start
            to[tokens] = i
            token[tokens] = substr(whole, start, i - start + 1)
            line_of[tokens] = line
        }
    }
}

function text_of(first, last) {
    return first > last ? "" : substr(whole, from[first], to[last] - from[first] + 1)
}

function is_name(i) {
    return token[i] ~ /^[A-Za-z_]/
}

# The token that closes the bracket at i.
function closing(i,    depth) {
    for (depth = 0; i <= tokens; i++) {
        if (token[i] ~ /^[({[]$/)
            depth++
        else if (token[i] ~ /^[]})]$/ && --depth == 0)
            return i
    }
    return tokens
}

# The first of these tokens outside of brackets, from i up to last; last + 1: there is none.
function find_outside(wanted, i, last) {
    for (; i <= last && token[i] != wanted; i++)
        if (token[i] ~ /^[({[]$/)
            i = closing(i)
    return i > last ? last + 1 : i
}

# ---- faults of a region ----

# Text that stands for nothing a user can see: what is not used, memory that cannot be had, arrays that grow, what is logged or released.
function is_left_out(text) {
    return text ~ /^\(void\)[a-z_]+(, \(void\)[a-z_]+)*$/ || text ~ /gs_fail_memory|(^|[.>])failed|E_MEMORY|alloc\(|GS_PUSH|GS_GROW|GS_RESERVE|_reserve\(|free(_[a-z]+)?\(|capacity|assert|gs_log|gs_progress|out_of_memory|NO_MEMORY|gs_hash|fclose|close\(|close_fd\(|_destroy\(|malloc_trim/
}

# Functions in which a fault costs memory or time only: what frees, what grows, and hashes.
function is_function_left_out(name) {
    return name ~ /_free$|_clear$|_hash$|^grow_|^free_|^hash_|^bucket_of$/
}

# Adds a fault: the tokens first..last of the region become `faulty`.
function add_fault(kind, first, last, faulty) {
    fault_kind[++faults] = kind
    fault_region[faults] = regions
    fault_first[faults] = first
    fault_last[faults] = last
    fault_text[faults] = faulty
}

# The first token of the condition before the "?" at i.
function condition_start(i, first,    depth) {
    for (depth = 0; i > first; i--) {
        if (token[i - 1] ~ /^[])}]$/)
            depth++
        else if (token[i - 1] ~ /^[({[]$/ && depth-- == 0)
            return i
        else if (depth == 0 && token[i - 1] ~ /^(,|:|\?|return|=|[-+*\/|&]=)$/)
            return i
    }
    return first
}

function is_binary(i) {
    return letter[from[i] - 1] ~ /[ \n]/ && letter[to[i] + 1] ~ /[ \n]/
}

# An integer or floating-point constant, and one more.
function next_number(text,    digits, suffix) {
    if (text !~ /^[0-9]+(\.[0-9]+)?[uUlL]*$/)
        return ""
    digits = text
    sub(/[uUlL]+$/, "", digits)
    suffix = substr(text, length(digits) + 1)
    if (digits ~ /\./)
        return (digits + 1) suffix
    return length(digits) > 9 ? "" : (digits + 1) suffix
}

# Whether a number is that of -1, which stands for "none".
function is_sentinel(i) {
    return token[i] == "1" && token[i - 1] == "-" && !is_binary(i - 1)
}

# Whether the operator at i asks whether there is a descriptor: 0 is open all the time, and so is never a new one.
function is_about_descriptor(i,    name) {
    name = i - 1
    if (token[name] == "]")
        while (token[name--] != "[")
            ;
    return token[i] ~ /^(<|>=)$/ && token[i + 1] == "0" && token[name] ~ /(^|_)fds?$|socket$/
}

# Whether all that is asked is whether memory was had: pointers, right after they were allocated.
function is_memory_check(text, first) {
    return text ~ /^\(?!?[a-z_.>-]+( (&&|\|\|) \(?!?[a-z_.>-]+\)?)*( \? GS_OK : .*)?$/ &&
           substr(whole, from[first] - 300 > 1 ? from[first] - 300 : 1, 300) ~ /alloc\(|strdup\(|strndup\(/
}

# Whether a comparison chooses between X and Y, or between X - Y and 0: then it does not matter what it says of equal ones.
function is_same_if_equal(i, first, last,    question, colon, x, y, then, otherwise) {
    question = find_outside("?", i, last)
    colon = find_outside(":", i, last)
    if (token[i] !~ /^[<>]=?$/ || question > last || colon > last)
        return 0
    x = text_of(condition_start(question, first), i - 1)
    sub(/.* (&&|\|\|) /, "", x)
    y = text_of(i + 1, question - 1)
    then = text_of(question + 1, colon - 1)
    otherwise = text_of(colon + 1, last)
    return (then == x " - " y || then == y " - " x) && otherwise ~ /^0($|[,);])/ ||
           then == x && index(otherwise, y) == 1 && substr(otherwise, length(y) + 1) ~ /^($|[,);])/ ||
           then == y && index(otherwise, x) == 1 && substr(otherwise, length(x) + 1) ~ /^($|[,);])/
}

# kind: condition, value, returned, statement.
function add_region(kind, first, last,    i, start, text) {
    if (muted || first > last || is_left_out(text_of(first, last)) || is_memory_check(one_line(text_of(first, last)), first))
        return
    regions++
    region_kind[regions] = kind
    region_first[regions] = first
    region_last[regions] = last
    # A number by itself says nothing: the declaration, loop or condition around it is shown.
    shown_first[regions] = first == last && outer_first ? outer_first : first
    shown_last[regions] = first == last && outer_first ? outer_last : last
    text = text_of(first, last)
    if (kind == "condition" && token[first] != "!")
        add_fault("condition negated", first, last, "!(" text ")")
    if (kind == "condition" && token[first] == "!" && last > first && find_outside("&&", first, last) > last &&
        find_outside("||", first, last) > last)
        add_fault("condition negated", first, last, text_of(first + 1, last))
    if (kind == "statement")
        add_fault("statement deleted", first, last, "")
    if (kind == "returned" && (find_outside("&&", first, last) <= last || find_outside("||", first, last) <= last ||
                               find_outside("==", first, last) <= last || find_outside("!=", first, last) <= last) &&
        find_outside("?", first, last) > last)
        add_fault("return value negated", first, last, "!(" text ")")
    for (i = first; i <= last; i++) {
        if (token[i] == "sizeof" || token[i] == "{" && token[i + 1] == "0" && token[i + 2] == "}") {
            i = token[i] == "{" ? i + 2 : token[i + 1] == "(" ? closing(i + 1) : i + 1
        } else if (is_same_if_equal(i, first, last)) {
            continue
        } else if (is_about_descriptor(i)) {
            i++
        } else if (token[i] in swaps && (is_name(i) || token[i] ~ /^(\+\+|--)$/ || is_binary(i))) {
            add_fault(is_name(i) ? "word swapped" : "operator swapped", i, i, swaps[token[i]])
        } else if (token[i] ~ /^[0-9]/ && next_number(token[i]) != "" && !is_sentinel(i)) {
            add_fault("constant changed", i, i, next_number(token[i]))
        } else if (token[i] == "?") {
            start = condition_start(i, first)
            add_fault("condition negated", start, i - 1, "!(" text_of(start, i - 1) ")")
        }
    }
}

# ---- statements ----

# A declaration: TYPE NAME = VALUE, NAME = VALUE. It is shown up to `end`.
function read_declaration(first, last, end,    comma, equals) {
    outer_first = first
    outer_last = end
    for (; first <= last; first = comma + 1) {
        comma = find_outside(",", first, last)
        equals = find_outside("=", first, comma - 1)
        if (equals < comma && token[equals + 1] == "{")
            read_list(equals + 2, comma - 2)
        else if (equals < comma)
            add_region("value", equals + 1, comma - 1)
    }
    outer_first = 0
}

# What is between braces: VALUE, .NAME = VALUE, nested lists.
function read_list(first, last,    comma, equals) {
    if (first == last && token[first] == "0")
        return
    for (; first <= last; first = comma + 1) {
        comma = find_outside(",", first, last)
        equals = find_outside("=", first, comma - 1)
        if (token[first] ~ /^[.[]$/ && equals < comma)
            first = equals + 1
        if (token[first] == "{")
            read_list(first + 1, comma - 2)
        else
            add_region("value", first, comma - 1)
    }
}

function is_declaration(i) {
    if (!is_name(i))
        return 0
    if (is_name(i + 1))
        return 1
    for (i++; token[i] == "*"; i++)
        ;
    return token[i - 1] == "*" && is_name(i) && token[i + 1] ~ /^[=;,[]$/
}

# Reads the statement at i; the token after it.
function read_statement(i,    end, first, second) {
    if (token[i] == "{") {
        for (end = closing(i++); i < end;)
            i = read_statement(i)
        return end + 1
    }
    if (token[i] == "if" || token[i] == "while" || token[i] == "switch") {
        end = closing(i + 1)
        if (token[i] != "switch")
            add_region("condition", i + 2, end - 1)
        # What is returned if there is no memory.
        if (is_left_out(text_of(i + 2, end - 1)) && (token[end + 1] == "return" || token[end + 2] == "return")) {
            muted++
            i = read_statement(end + 1)
            muted--
            return i
        }
        if (token[end + 1] == "return") {
            outer_first = i
            outer_last = find_outside(";", end + 1, tokens) - 1
        }
        i = read_statement(end + 1)
        outer_first = 0
        return i
    }
    if (token[i] == "else" || token[i] == "do")
        return read_statement(i + 1)
    if (token[i] == "for") {
        end = closing(i + 1)
        first = find_outside(";", i + 2, end - 1)
        second = find_outside(";", first + 1, end - 1)
        # A loop that frees: a fault leaks, which the sanitizers see.
        if (text_of(end + 1, find_outside(";", end + 1, tokens)) ~ /^[a-z_]*free\(/)
            return read_statement(end + 1)
        if (is_declaration(i + 2))
            read_declaration(i + 2, first - 1, second - 1)
        add_region("value", first + 1, second - 1)
        return read_statement(end + 1)
    }
    if (token[i] == "case" || token[i] == "default" || token[i + 1] == ":")
        return find_outside(":", i, tokens) + 1
    end = find_outside(";", i, tokens)
    if (token[i] == "return")
        add_region("returned", i + 1, end - 1)
    else if (token[i] == "static" || token[i] ~ /^(break|continue|goto|enum|typedef)$/ || token[i] == ";")
        ;
    else if (is_declaration(i))
        read_declaration(i, end - 1, end - 1)
    else
        add_region("statement", i, end - 1)
    return end + 1
}

# ---- output ----

# The text of the tokens first..last, with fault f in it.
function faulty_text(first, last, f) {
    return substr(whole, from[first], from[fault_first[f]] - from[first]) fault_text[f] \
        substr(whole, to[fault_last[f]] + 1, to[last] - to[fault_last[f]])
}

function one_line(text) {
    gsub(/[ \t\n]+/, " ", text)
    return text
}

# How a list shows a fault: the region as it is, and with the fault.
function print_fault(f,    r) {
    r = fault_region[f]
    printf "%d\t%d\t%s\t%s\t%s\n", f, line_of[fault_first[f]], fault_kind[f], one_line(text_of(shown_first[r], shown_last[r])),
        fault_kind[f] == "statement deleted" ? "" : one_line(faulty_text(shown_first[r], shown_last[r], f))
}

# Region r with its chosen faults. A line with "GS_FAULT(N)" begins each of them, so that a message of the compiler can
# be traced to its fault.
function planted_text(r, f, last,    out, original) {
    original = text_of(region_first[r], region_last[r])
    for (; f <= last && fault_region[f] == r; f++) {
        if (!(f in number_of))
            continue
        if (region_kind[r] == "statement")
            out = out "if (GS_FAULT(" number_of[f] ")) {\n" faulty_text(region_first[r], region_last[r], f) ";\n} else "
        else
            out = out "GS_FAULT(" number_of[f] ") ? (\n" faulty_text(region_first[r], region_last[r], f) ") :\n"
    }
    if (region_kind[r] == "statement")
        return "{ " out "{\n" original "; } }"
    return "(" out " (" original "))"
}

function print_planted(    f, r, done) {
    while ((getline row < chosen) > 0) {
        split(row, part, " ")
        number_of[part[1]] = part[2]
    }
    done = 1
    for (f = 1; f <= faults; f++) {
        if (!(f in number_of))
            continue
        r = fault_region[f]
        printf "%s%s", substr(whole, done, from[region_first[r]] - done), planted_text(r, f, faults)
        done = to[region_last[r]] + 1
        # The semicolon after a statement is a part of it.
        if (region_kind[r] == "statement")
            done = from[region_last[r] + 1] + 1
        while (f < faults && fault_region[f + 1] == r)
            f++
    }
    printf "%s", substr(whole, done)
}

BEGIN {
    n = split("< <= <= < > >= >= > == != != == && || || && + - - + * / / * % / += -= -= += *= /= /= *= ++ -- -- ++ << >> >> << " \
              "& | | & |= &= &= |= true false false true gs_min gs_max gs_max gs_min gs_min_u64 gs_max_u64 gs_max_u64 gs_min_u64 " \
              "gs_min_i64 gs_max_i64 gs_max_i64 gs_min_i64 fmin fmax fmax fmin", pairs, " ")
    for (i = 1; i < n; i += 2)
        swaps[pairs[i]] = pairs[i + 1]
}

{ whole = whole $0 "\n" }

END {
    cut_tokens()
    for (i = 2; i <= tokens; i++)
        if (token[i] == "(" && is_name(i - 1) && token[closing(i) + 1] == "{") {
            muted = is_function_left_out(token[i - 1])
            i = read_statement(closing(i) + 1) - 1
        } else if (token[i] ~ /^[({]$/) {
            i = closing(i)
        }
    if (mode == "plant")
        print_planted()
    else
        for (f = 1; f <= faults; f++)
            print_fault(f)
}
