#!/bin/sh
# run.sh: the pages of --html in a real browser, where there is one.
#
#   sh tests/browser/run.sh GRIDSMITH SOURCE_DIR [TEST...]
export PYTHONDONTWRITEBYTECODE=1
command -v python3 >/dev/null || { echo "python3 is not installed: skipped"; exit 77; }
for name in chromium chromium-browser google-chrome chrome; do
    command -v "$name" >/dev/null && exec python3 "$2/tests/browser/test_page.py" "$@"
done
echo "chromium is not installed: skipped"
exit 77
