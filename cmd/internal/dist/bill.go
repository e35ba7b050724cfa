package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// component is a module whose code is in what is released, or Go's own library.
type component struct {
	path, version, sum string
	license            string   // as SPDX writes it
	texts              []string // the licence, and what the authors want to be told with it
}

// components reads from programs and libraries what they were built from.
func components(built []file) ([]component, error) {
	seen := map[string]component{}
	for _, f := range built {
		info, err := buildinfo.Read(bytes.NewReader(f.data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		std := component{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}
		seen[std.path] = std
		for _, m := range info.Deps {
			if m.Replace != nil { // the main module, for that of the libraries
				continue
			}
			c := component{path: m.Path, version: m.Version, sum: m.Sum}
			if old, ok := seen[c.path]; ok && old.version != c.version {
				return nil, fmt.Errorf("%s is in the release as %s and as %s", c.path, old.version, c.version)
			}
			seen[c.path] = c
		}
	}
	var all []component
	for _, c := range seen {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b component) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// readLicense reads the licence of a component from the folder of its source.
func (c *component) readLicense(dir string) error {
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "COPYING*", "NOTICE*", "PATENTS*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, n := range names {
			b, err := os.ReadFile(n)
			if err != nil {
				return err
			}
			c.texts = append(c.texts, string(b))
		}
	}
	var err error
	c.license, err = licenseOf(c.texts)
	if err != nil {
		return fmt.Errorf("%s: %w in %s", c.path, err, dir)
	}
	return nil
}

// licenseOf tells licences by sentences that only they have. One that is not known here stops the
// release: somebody has to read it.
func licenseOf(texts []string) (string, error) {
	all := strings.Join(strings.Fields(strings.Join(texts, "\n")), " ")
	var found []string
	for _, l := range []struct{ id, sentence string }{
		{"Apache-2.0", "Apache License Version 2.0"},
		{"BSD-3-Clause", "may be used to endorse or promote products derived from this software without specific prior written permission"},
		{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files"},
	} {
		if strings.Contains(all, l.sentence) {
			found = append(found, l.id)
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("no licence that is known")
	}
	return strings.Join(found, " AND "), nil
}

// notices are the licences of all components, for a folder of documentation.
func notices(all []component) string {
	var b strings.Builder
	b.WriteString("goroce has code of these modules in its programs and libraries.\n")
	for _, c := range all {
		fmt.Fprintf(&b, "\n\n==== %s %s (%s)\n", c.path, c.version, c.license)
		for _, t := range c.texts {
			b.WriteString("\n" + strings.TrimSpace(t) + "\n")
		}
	}
	return b.String()
}

// bill is the bill of materials as SPDX 2.3 in JSON: the release, what is in it, and the checksums
// of the programs and libraries.
func bill(version string, all []component, files []file, when time.Time) ([]byte, error) {
	type object = map[string]any
	const release = "SPDXRef-goroce"
	packages := []object{{
		"SPDXID": release, "name": "goroce", "versionInfo": version,
		"downloadLocation": "https://github.com/goroce/goroce", "filesAnalyzed": false,
		"licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION",
		"supplier": "NOASSERTION", "externalRefs": []object{{"referenceCategory": "PACKAGE-MANAGER",
			"referenceType": "purl", "referenceLocator": "pkg:golang/" + modulePath + "@" + version}},
	}}
	relations := []object{{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
		"relatedSpdxElement": release}}
	for i, c := range all {
		id := fmt.Sprintf("SPDXRef-module-%d", i)
		p := object{
			"SPDXID": id, "name": c.path, "versionInfo": c.version, "downloadLocation": "NOASSERTION",
			"filesAnalyzed": false, "licenseConcluded": c.license, "licenseDeclared": c.license,
			"copyrightText": "NOASSERTION", "supplier": "NOASSERTION",
			"externalRefs": []object{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
				"referenceLocator": "pkg:golang/" + c.path + "@" + c.version}},
		}
		if c.sum != "" {
			p["comment"] = "go.sum " + c.sum
		}
		packages = append(packages, p)
		relations = append(relations,
			object{"spdxElementId": release, "relationshipType": "CONTAINS", "relatedSpdxElement": id})
	}
	var listed []object
	hash := ""
	for i, f := range files {
		id := fmt.Sprintf("SPDXRef-file-%d", i)
		listed = append(listed, object{
			"SPDXID": id, "fileName": "./" + f.name, "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION",
			"checksums": []object{{"algorithm": "SHA1", "checksumValue": sha1sum(f.data)}, {"algorithm": "SHA256",
				"checksumValue": sha256sum(f.data)}},
		})
		relations = append(relations,
			object{"spdxElementId": release, "relationshipType": "CONTAINS", "relatedSpdxElement": id})
		hash += sha256sum(f.data)
	}
	b, err := json.MarshalIndent(object{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "goroce-" + version,
		"documentNamespace": "https://github.com/goroce/goroce/spdx/" + version + "-" + sha256sum([]byte(hash))[:16],
		"creationInfo": object{"created": when.UTC().Format(time.RFC3339),
			"creators": []string{"Tool: goroce-dist"}},
		"packages": packages, "files": listed, "relationships": relations,
	}, "", " ")
	return append(b, '\n'), err
}
