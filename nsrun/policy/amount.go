package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Parse reads the value of a limit as people write it. A bare number counts in the limit's unit. One with a unit is converted and rounded up: bytes
// with k, M, G or T, also as Ki, KB or KiB, in any case, all of them powers of 1024; times as in 90s or 1h30m; shares as in 50%. The error says
// what to write. A number that is too large is the largest there is, which [Limit.Check] refuses.
func (r LimitRow) Parse(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if number := strings.TrimLeft(text, "+-"); err == nil || number != "" && strings.Trim(number, "0123456789") == "" {
		return n, nil
	}
	switch r.Unit {
	case "s":
		if d, err := time.ParseDuration(text); err == nil {
			return int64(math.Ceil(d.Seconds())), nil
		}
	case "%":
		if n, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64); err == nil {
			return n, nil
		}
	case "MiB", "MiB/s", "bytes":
		digits, power, ok := r.cutSize(text)
		n, err := strconv.ParseInt(digits, 10, 64)
		if ok && err == nil {
			return r.fromBytes(n, power), nil
		}
	}
	return 0, fmt.Errorf("%s", r.howToWrite(text))
}

// cutSize cuts the unit off a size. Power says of how many factors of 1024 it is.
func (r LimitRow) cutSize(text string) (digits string, power int, ok bool) {
	digits = text[:len(text)-len(strings.TrimLeft(text, "0123456789."))]
	unit := strings.ToLower(text[len(digits):])
	if r.Unit == "MiB/s" {
		unit = strings.TrimSuffix(unit, "/s")
	}
	short := strings.TrimSuffix(unit, "b")
	if power = strings.Index("kmgt", strings.TrimSuffix(short, "i")) + 1; short == "" {
		return digits, 0, unit == "b"
	}
	return digits, power, power > 0 && len(strings.TrimSuffix(short, "i")) == 1
}

// fromBytes converts n times 1024 to that power, and rounds up.
func (r LimitRow) fromBytes(n int64, power int) int64 {
	own := 2 // of MiB
	if r.Unit == "bytes" {
		own = 0
	}
	for ; power > own; power-- {
		if n > math.MaxInt64>>10 {
			return math.MaxInt64
		}
		n <<= 10
	}
	for ; power < own; power++ {
		n = n>>10 + min(1, n&1023)
	}
	return n
}

// howToWrite says how a value that cannot be read is written.
func (r LimitRow) howToWrite(text string) string {
	if joined := strings.Join(strings.Fields(text), ""); joined != text && joined != "" {
		if _, err := r.Parse(joined); err == nil {
			return "write it without blanks, as " + joined
		}
	}
	switch r.Unit {
	case "s":
		return "write a number of seconds, or a time with its units, as in 90s, 5m or 1h30m"
	case "%":
		return "write a whole number, as in 50 or 50%"
	case "":
		return "write a whole number, without a unit"
	}
	digits, power, ok := r.cutSize(text)
	if f, err := strconv.ParseFloat(digits, 64); err == nil && ok && power > 0 && f*1024 == math.Trunc(f*1024) && f < 1<<20 {
		return fmt.Sprintf("write a whole number, as in %.0f%s", f*1024, []string{"B", "k", "M", "G"}[power-1])
	}
	return "write a whole number of " + r.Unit + ", or one with its unit, as in 512M or 2G"
}

// Pattern is a regular expression of what [LimitRow.Parse] takes beside a bare number, or empty.
func (r LimitRow) Pattern() string {
	const size = `^[0-9]+([kKmMgGtT][iI]?[bB]?|[bB])`
	switch r.Unit {
	case "s":
		return `^([0-9]+([.][0-9]*)?(ns|us|ms|s|m|h))+$`
	case "%":
		return `^[0-9]+%$`
	case "bytes", "MiB":
		return size + "$"
	case "MiB/s":
		return size + "(/s)?$"
	}
	return ""
}
