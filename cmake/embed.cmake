# Writes ${output}: a C file with the bytes of each of the ${files} (a list joined by '|'), as the
# gs_embedded_files ${variable}, which ${header} declares. Names of JSON files come without their ending.
string(REPLACE "|" ";" files "${files}")
list(SORT files)
set(arrays "")
set(rows "")
foreach(file IN LISTS files)
    get_filename_component(name "${file}" NAME)
    string(REGEX REPLACE "\\.json$" "" name "${name}")
    string(MAKE_C_IDENTIFIER "bytes_${name}" symbol)
    file(READ "${file}" hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND arrays "static const unsigned char ${symbol}[] = {${bytes}0x00};\n")
    string(APPEND rows "    {\"${name}\", (const char *)${symbol}, sizeof ${symbol} - 1},\n")
endforeach()
file(WRITE "${output}" "#include \"${header}\"\n\n${arrays}\nstatic const gs_embedded_file rows[] = {\n${rows}};\n"
    "const gs_embedded_files ${variable} = {rows, GS_COUNT(rows)};\n")
