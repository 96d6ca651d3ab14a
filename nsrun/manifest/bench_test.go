package manifest

import "testing"

func BenchmarkParse(b *testing.B) {
	for name, text := range map[string]string{"JSON": everything, "YAML": everythingYAML} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				m, err := Parse("m", []byte(text))
				if err != nil {
					b.Fatal(err)
				}
				ctx := here
				ctx.Read = eightBytes
				if _, err := m.Policy(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
