package netrule

// ParseAll parses a list of rules. The notes are left out.
func ParseAll(texts []string) (Rules, error) {
	all := make(Rules, 0, len(texts))
	for _, text := range texts {
		r, _, err := Parse(text)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
