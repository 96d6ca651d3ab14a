package testenv

import (
	"os"
	"strings"
	"testing"
)

// DocTable compares what stands on a page between the marks of a name, "<!-- NAME:begin -->" and "<!-- NAME:end -->", with the table in the code, or with
// update writes it there.
func DocTable(t testing.TB, page, name, table string, update bool) {
	t.Helper()
	begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->\n"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	have, after, whole := strings.Cut(rest, end)
	switch {
	case !ok || !whole:
		t.Fatalf("%s has no place for the table %s", page, name)
	case update:
		if err := os.WriteFile(page, []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case have != table:
		t.Errorf("%s: the table %s is another than the code's; go test with -update writes it. It is\n%s\nand has to be\n%s", page, name, have, table)
	}
}
