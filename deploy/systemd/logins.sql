-- The database and its five logins, for a superuser or a role with CREATEROLE and CREATEDB.
create role pix_owner login createrole password 'owner-password';
create role pix_app login password 'app-password';
create role pix_ops login password 'ops-password';
create role pix_console login password 'console-password';
create role pix_verify login password 'verify-password';
grant pix_owner to current_user;
create database pixconnect owner pix_owner;
