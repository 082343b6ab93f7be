# Writes ${output}: a C file with the bytes of each of the ${files} (a list joined by '|'), as an array ${array} of
# ${type}, which ${header} declares: the name of the file, its bytes, with a NUL behind them, and how many they are;
# names of JSON files come without their ending.
string(REPLACE "|" ";" files "${files}")
list(SORT files)
set(arrays "")
set(rows "")
string(REGEX REPLACE "s$" "_count" count "${array}")
foreach(file IN LISTS files)
    get_filename_component(name "${file}" NAME)
    string(REGEX REPLACE "\\.json$" "" name "${name}")
    string(MAKE_C_IDENTIFIER "bytes_${name}" symbol)
    file(READ "${file}" hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND arrays "static const unsigned char ${symbol}[] = {${bytes}0x00};\n")
    string(APPEND rows "    {\"${name}\", ${symbol}, sizeof ${symbol} - 1},\n")
endforeach()
file(WRITE "${output}" "#include \"${header}\"\n\n${arrays}\nconst ${type} ${array}[] = {\n${rows}};\n"
    "const size_t ${count} = sizeof ${array} / sizeof ${array}[0];\n")
