package node

import (
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"
)

// table is a table of a TOML file.
type table map[string]any

// parseTOML reads a file of TOML. The error says where.
func parseTOML(text []byte) (table, error) {
	t := table{}
	err := toml.Unmarshal(text, &t)
	if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := wrong.Position()
		return nil, fmt.Errorf("line %d, column %d: %w", line, column, err)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// at follows keys down; what is not there, or not a table, is an empty table.
func (t table) at(keys ...string) table {
	for _, key := range keys {
		next, ok := t[key].(map[string]any)
		if !ok {
			return nil
		}
		t = next
	}
	return t
}

func (t table) text(key string) string {
	s, _ := t[key].(string)
	return s
}

func (t table) texts(key string) []string {
	list, _ := t[key].([]any)
	var all []string
	for _, e := range list {
		if s, ok := e.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// shown is a value in a few words. A table or a list is not: one can be nested so deep
// that whoever prints it dies of it.
func shown(value any) string {
	switch v := value.(type) {
	case map[string]any:
		return "a table"
	case []any:
		return "a list"
	case string:
		return printable([]byte(v))
	default:
		return fmt.Sprint(v)
	}
}
