package policy

import "strings"

// Nearest finds the known name that was probably meant.
func Nearest(name string, known []string) (string, bool) {
	best, least := "", 3
	for _, k := range known {
		if strings.EqualFold(strings.ReplaceAll(name, "-", "_"), k) {
			return k, true
		}
		if d := distance(strings.ToLower(name), k); d < least && d < len(k)/2+1 {
			best, least = k, d
		}
	}
	return best, best != ""
}

// distance is how many letters must change to make b of a; more than 2 is not told apart.
func distance(a, b string) int {
	if len(a)-len(b) > 2 || len(b)-len(a) > 2 {
		return 3
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
