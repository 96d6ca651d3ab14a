#!/bin/sh
read -r question
case $question in
*'"name":"files.example.com"'*) echo session ;;
*) echo deny not one of our hosts ;;
esac
