"""Tokenizers: conversion between text and token ids."""
