/* alone.c: an empty file. The wings of src are linked with it one by one: see tests/CMakeLists.txt, "wings alone". */
typedef int gs_nothing;
