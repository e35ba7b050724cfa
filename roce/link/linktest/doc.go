// Package linktest tests links: [Run] is a suite that every pair of links that
// reach each other must pass, whatever they are made of, and [NewNet] makes
// network namespaces with interfaces between them.
//
// It is for tests only.
package linktest
