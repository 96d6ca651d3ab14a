package main

import (
	"encoding/json"
	"os"
)

// writeJSON writes the report to a file.
func writeJSON(file string, r *report) error {
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
