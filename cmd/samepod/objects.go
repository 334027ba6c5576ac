package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// parseObjects reads API objects of any kind from YAML or JSON, as kubectl prints them:
// documents that are objects, or Lists of them. Each is as the API's JSON has it. Half a
// file is an error.
func parseObjects(text []byte) ([]map[string]any, error) {
	var all []map[string]any
	found := false
	for stream := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc any
		switch err := stream.Decode(&doc); {
		case errors.Is(err, io.EOF) && !found:
			return nil, errors.New("empty; a list of no objects is written {kind: List, items: []}")
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, errors.New(syntaxError(err))
		case doc == nil:
			continue // nothing between two markers
		}
		objects, err := objectsOf(doc)
		if err != nil {
			return nil, err
		}
		found, all = true, append(all, objects...)
	}
}

// objectsOf are the objects of one document.
func objectsOf(doc any) ([]map[string]any, error) {
	text, err := json.Marshal(doc) // numbers and keys as the API has them
	if err != nil {
		return nil, fmt.Errorf("not an object of the API: %w", err)
	}
	var object struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("not an object of the API: %w", err)
	}
	if object.Items == nil {
		object.Items = []json.RawMessage{text}
	}
	all := make([]map[string]any, len(object.Items))
	for i, item := range object.Items {
		if err := json.Unmarshal(item, &all[i]); err != nil || all[i]["kind"] == nil {
			return nil, fmt.Errorf("item %d has no kind", i)
		}
	}
	return all, nil
}
