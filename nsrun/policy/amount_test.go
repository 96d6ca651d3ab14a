package policy

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func rowOf(t *testing.T, unit string) LimitRow {
	for _, r := range LimitTable {
		if r.Unit == unit {
			return r
		}
	}
	t.Fatalf("no limit has the unit %q", unit)
	return LimitRow{}
}

// What has a unit is converted to the limit's and rounded up; a bare number counts in the limit's unit.
func TestAmounts(t *testing.T) {
	for _, c := range []struct {
		unit, text string
		want       int64
	}{
		{"MiB", "512", 512}, {"MiB", "-1", -1}, {"MiB", "512M", 512}, {"MiB", "512m", 512}, {"MiB", "512Mb", 512}, {"MiB", "512MiB", 512}, {"MiB", "512Mi", 512},
		{"MiB", "2G", 2048}, {"MiB", "2gib", 2048}, {"MiB", "1T", 1 << 20}, {"MiB", "1k", 1}, {"MiB", "1024K", 1}, {"MiB", "1025KiB", 2}, {"MiB", "1B", 1},
		{"MiB", "1048576b", 1}, {"MiB", "1048577B", 2}, {"MiB", "0k", 0}, {"MiB", "9999999999999T", math.MaxInt64},
		{"MiB", "99999999999999999999", math.MaxInt64}, {"MiB", "-99999999999999999999", math.MinInt64},
		{"MiB/s", "10M", 10}, {"MiB/s", "10MiB/s", 10}, {"MiB/s", "1G/s", 1024}, {"bytes", "1", 1}, {"bytes", "1k", 1024}, {"bytes", "3MB", 3 << 20}, {"bytes", "5b", 5},
		{"bytes", "8388608T", math.MaxInt64},
		{"s", "90", 90}, {"s", "90s", 90}, {"s", "5m", 300}, {"s", "1h30m", 5400}, {"s", "1500ms", 2}, {"s", "-5s", -5}, {"%", "50", 50}, {"%", "50%", 50}, {"", "64", 64},
	} {
		got, err := rowOf(t, c.unit).Parse(c.text)
		if assert.NoError(t, err, c.text) {
			assert.Equal(t, c.want, got, "%s in %s", c.text, c.unit)
		}
	}
}

// What cannot be read is an error that says what to write.
func TestBadAmounts(t *testing.T) {
	for _, c := range []struct{ unit, text, want string }{
		{"MiB", "512 Mb", "without blanks, as 512Mb"}, {"MiB", "1e3g", "as in 512M or 2G"}, {"MiB", "1.5G", "as in 1536M"}, {"MiB", "", "whole number of MiB"},
		{"MiB", "M", "512M"}, {"MiB", "1P", "512M"}, {"MiB", "1ki b", "without blanks"}, {"MiB", "5m/s", "512M"}, {"MiB", "1kk", "512M"}, {"MiB", "0x10", "512M"},
		{"MiB", "1.0001G", "512M"}, {"MiB", "-1M", "512M"}, {"bytes", "0.5k", "as in 512B"}, {"s", "soon", "90s, 5m or 1h30m"}, {"s", "5 m", "as 5m"},
		{"%", "x%", "50%"}, {"%", "0.5", "50%"}, {"", "1k", "without a unit"}, {"", "1.5", "without a unit"},
	} {
		_, err := rowOf(t, c.unit).Parse(c.text)
		if assert.Error(t, err, c.text) {
			assert.Contains(t, err.Error(), c.want, c.text)
		}
	}
}

// FuzzAmounts holds the pattern that schemas publish against what is read.
func FuzzAmounts(f *testing.F) {
	for _, text := range []string{"5", "512MiB", "1h30m", "50%", "2G/s", "1.5s", "", "k", "999999999999999999T", "9223372036854775807h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range LimitTable {
			if r.Pattern() == "" || !regexp.MustCompile(r.Pattern()).MatchString(text) {
				continue
			}
			digits := strings.Trim(text[:len(text)-len(strings.TrimLeft(text, "0123456789"))], "0")
			if n, err := r.Parse(text); len(digits) < 9 { // a time of more digits may be too long
				require.NoError(t, err, text)
				require.GreaterOrEqual(t, n, int64(0), text)
			}
		}
	})
}
